/** Only the newest client is asked for these. */
final class Clerks {
    static void run(Main.Options options) {
        throw new UnsupportedOperationException("clerks");
    }

    private Clerks() { }
}

/** Offsets go into a transaction by the group's metadata, which this version has not (KIP-447). */
final class Transactions {
    static void transact(Main.Options options) {
        throw new UnsupportedOperationException("transact");
    }

    static void transform(Main.Options options) {
        throw new UnsupportedOperationException("transform");
    }

    private Transactions() { }
}

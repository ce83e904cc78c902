import java.util.HashMap;
import java.util.Map;

/** kafka-clients as the harness drives it. */
public final class Main {
    /** The arguments after the verb; a name alone means "true". */
    record Options(Map<String, String> values) {
        static Options of(String[] arguments) {
            Map<String, String> values = new HashMap<>();
            for (int at = 1; at < arguments.length; at++) {
                boolean alone = at + 1 == arguments.length || arguments[at + 1].startsWith("--");
                values.put(arguments[at].substring(2), alone ? "true" : arguments[++at]);
            }
            return new Options(values);
        }

        Options with(String name, String value) {
            Map<String, String> more = new HashMap<>(values);
            more.put(name, value);
            return new Options(more);
        }

        String get(String name) {
            return values.get(name);
        }

        int number(String name, int otherwise) {
            return values.containsKey(name) ? Integer.parseInt(values.get(name)) : otherwise;
        }
    }

    /** What a capability of the program's own does: its sentence, or an exception. */
    interface Story {
        String play(Options options) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "warn");
        Options options = Options.of(arguments);
        switch (arguments[0]) {
            case "produce" -> Produce.run(options);
            case "member" -> new Member(options).run();
            case "clerks" -> Clerks.run(options);
            case "transact" -> Transactions.transact(options);
            case "transform" -> Transactions.transform(options);
            default -> answer(Administration.STORIES.get(arguments[0]), options);
        }
        System.exit(0);
    }

    private static void answer(Story story, Options options) {
        String line;
        try {
            line = "{\"ok\": true, \"detail\": " + quoted(story.play(options)) + "}";
        } catch (Exception | AssertionError error) {
            error.printStackTrace();
            line = "{\"ok\": false, \"detail\": " + quoted(error.toString()) + "}";
        }
        tell(line);
    }

    static synchronized void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ").replace("\t", " ") + '"';
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    private Main() { }
}

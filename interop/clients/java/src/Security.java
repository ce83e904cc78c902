import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/** Settings of TLS and of a login, from the file of `--security`. */
final class Security {
    private static final String MODULES = "org.apache.kafka.common.security.";

    static Map<String, Object> settings(Main.Options options) {
        Map<String, Object> settings = new HashMap<>();
        if (options.get("security") == null) {
            return settings;
        }
        Properties given = new Properties();
        try (Reader reader = Files.newBufferedReader(Path.of(options.get("security")))) {
            given.load(reader);
        } catch (IOException error) {
            throw new IllegalArgumentException(error);
        }
        String mechanism = given.getProperty("sasl.mechanism");
        settings.put("security.protocol", given.getProperty("security.protocol"));
        settings.put("sasl.mechanism", mechanism);
        if (given.containsKey("ssl.ca.location")) {
            settings.put("ssl.truststore.type", "PEM");
            settings.put("ssl.truststore.location", given.getProperty("ssl.ca.location"));
        }
        String name = given.getProperty("sasl.username");
        String secret = given.getProperty("sasl.password");
        if (mechanism.equals("OAUTHBEARER")) {
            String endpoint = given.getProperty("sasl.oauthbearer.token.endpoint.url");
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", endpoint);
            settings.put("sasl.oauthbearer.token.endpoint.url", endpoint);
            settings.put("sasl.login.callback.handler.class", MODULES + "oauthbearer.OAuthBearerLoginCallbackHandler");
            settings.put("sasl.jaas.config", jaas("oauthbearer.OAuthBearerLoginModule", "clientId", name, "clientSecret", secret));
        } else {
            String module = mechanism.equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
            settings.put("sasl.jaas.config", jaas(module, "username", name, "password", secret));
        }
        return settings;
    }

    private static String jaas(String module, String user, String name, String password, String secret) {
        return String.format("%s%s required %s=\"%s\" %s=\"%s\";", MODULES, module, user, name, password, secret);
    }

    private Security() { }
}

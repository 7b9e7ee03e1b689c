import java.nio.charset.StandardCharsets;
import java.util.Map;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.CallbackHandler;
import javax.security.auth.callback.NameCallback;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;

/** What Kafka's server of SCRAM answers to first tokens: "asked", or "denied" with the message that the client hears. */
public class KafkaScram {
    public static void main(String[] arguments) throws Exception {
        ScramMechanism mechanism = ScramMechanism.SCRAM_SHA_256;
        ScramCredential credential = new ScramFormatter(mechanism).generateCredential("secret", 4096);
        int count = Integer.parseInt(arguments[0]);
        for (int at = 1 + count; at < arguments.length; at++) {
            CallbackHandler users = callbacks -> {
                String name = "";
                for (Callback each : callbacks) {
                    if (each instanceof NameCallback) name = ((NameCallback) each).getDefaultName();
                    for (int user = 1; user <= count; user++)
                        if (each instanceof ScramCredentialCallback && arguments[user].equals(name))
                            ((ScramCredentialCallback) each).scramCredential(credential);
                }
            };
            try {
                new ScramSaslServer(mechanism, Map.of(), users).evaluateResponse(arguments[at].getBytes(StandardCharsets.UTF_8));
                System.out.println("asked");
            } catch (SaslAuthenticationException heard) {
                System.out.println("denied " + heard.getMessage());
            } catch (SaslException vague) {
                System.out.println("denied");
            }
        }
    }
}

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.errors.ThrottlingQuotaExceededException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;

/**
 * Changes topics beyond a `controller_mutation_rate` of its own. Arguments: bootstrap servers, and the beginning of its topics'
 * names, which is its client id, too.
 *
 * It limits itself to 2 partitions a second, and creates `NAME-large` with 26, of which 4 are its debt. It prints the throttle
 * time of the refusal that follows, and the milliseconds from there until `NAME-small` was created, since the client tries again by
 * itself. Then it takes the limit away, adds a partition to `NAME-small`, and deletes both.
 */
public class JavaMutations {
    private static final double RATE = 2.0;

    public static void main(String[] arguments) throws Exception {
        String name = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("client.id", name);
        try (Admin admin = Admin.create(settings)) {
            limit(admin, name, RATE);
            admin.createTopics(List.of(new NewTopic(name + "-large", 26, (short) 1))).all().get();
            List<NewTopic> small = List.of(new NewTopic(name + "-small", 1, (short) 1));
            long askedAt = System.nanoTime();
            try {
                admin.createTopics(small, new CreateTopicsOptions().retryOnQuotaViolation(false)).all().get();
            } catch (ExecutionException failed) {
                System.out.println(((ThrottlingQuotaExceededException) failed.getCause()).throttleTimeMs());
            }
            admin.createTopics(small).all().get();
            System.out.println(Duration.ofNanos(System.nanoTime() - askedAt).toMillis());
            limit(admin, name, null);
            admin.createPartitions(Map.of(name + "-small", NewPartitions.increaseTo(2))).all().get();
            admin.deleteTopics(List.of(name + "-large", name + "-small")).all().get();
        }
    }

    private static void limit(Admin admin, String clientId, Double rate) throws Exception {
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, clientId));
        ClientQuotaAlteration.Op op = new ClientQuotaAlteration.Op("controller_mutation_rate", rate);
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(op)))).all().get();
    }
}

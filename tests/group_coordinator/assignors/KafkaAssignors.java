// Kafka's own server-side assignors over groups read from standard input, one JSON object a line; answers likewise.
// {"assignor": NAME, "topics": {ID: PARTITIONS}, "members": {ID: {"instance": X, "rack": X, "topics": [ID], "assigned": {ID: [N]}}}}

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class KafkaAssignors {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        }
    }

    static Map<String, Map<String, Set<Integer>>> assign(JsonNode group) {
        Map<Uuid, Integer> topics = new HashMap<>();
        group.get("topics").fields().forEachRemaining(topic -> topics.put(Uuid.fromString(topic.getKey()), topic.getValue().asInt()));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        Set<Set<Uuid>> subscriptions = new HashSet<>();
        group.get("members").fields().forEachRemaining(member -> {
            JsonNode asked = member.getValue();
            Set<Uuid> subscribed = new HashSet<>();
            asked.get("topics").forEach(topic -> subscribed.add(Uuid.fromString(topic.asText())));
            subscriptions.add(subscribed);
            Map<Uuid, Set<Integer>> assigned = new HashMap<>();
            asked.get("assigned").fields().forEachRemaining(topic -> {
                Uuid id = Uuid.fromString(topic.getKey());
                topic.getValue().forEach(partition -> {
                    assigned.computeIfAbsent(id, key -> new HashSet<>()).add(partition.asInt());
                    owners.computeIfAbsent(id, key -> new HashMap<>()).put(partition.asInt(), member.getKey());
                });
            });
            members.put(member.getKey(), new MemberSubscriptionAndAssignmentImpl(
                text(asked.get("rack")), text(asked.get("instance")), subscribed, new Assignment(assigned)));
        });
        SubscriptionType type = subscriptions.size() > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid id) {
                return topics.getOrDefault(id, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
        };
        ConsumerGroupPartitionAssignor assignor =
            group.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, Map<String, Set<Integer>>> result = new TreeMap<>();
        assignor.assign(new GroupSpecImpl(members, type, owners), describer).members().forEach((id, assignment) -> {
            Map<String, Set<Integer>> mine = new TreeMap<>();
            assignment.partitions().forEach((topic, partitions) -> {
                if (!partitions.isEmpty()) mine.put(topic.toString(), new TreeSet<>(partitions));
            });
            result.put(id, mine);
        });
        return result;
    }

    static Optional<String> text(JsonNode node) {
        return node == null || node.isNull() ? Optional.empty() : Optional.of(node.asText());
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Members of groups on Java's consumer, steered like those of librdkafka_members.py. */
public class JavaMembers {
    private static final Duration POLL = Duration.ofMillis(50);

    private static Properties settings(String name, List<String> chosen) {
        Properties settings = new Properties();
        settings.put("group.id", name);
        settings.put("group.protocol", chosen.get(0));
        settings.put("max.poll.interval.ms", chosen.get(2));
        settings.put("bootstrap.servers", chosen.get(3));
        settings.put("enable.auto.commit", "false");
        settings.put("metadata.max.age.ms", "500");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        if (chosen.get(0).equals("classic")) {
            settings.put("session.timeout.ms", chosen.get(1));
            settings.put("heartbeat.interval.ms", "300");
        }
        return settings;
    }

    /** A member's life, in a thread of its own. `hang` stops its polls once it has partitions. */
    private static void live(KafkaConsumer<byte[], byte[]> consumer, BlockingQueue<List<String>> commands) {
        boolean polls = true;
        try {
            while (true) {
                List<String> command = polls ? commands.poll() : commands.take();
                if (command == null) {
                    if (!consumer.subscription().isEmpty()) consumer.poll(POLL);
                    else Thread.sleep(POLL.toMillis());
                    continue;
                }
                switch (command.get(0)) {
                    case "subscribe" -> consumer.subscribe(command.subList(1, command.size()));
                    case "unsubscribe" -> consumer.unsubscribe();
                    case "hang" -> {
                        while (consumer.assignment().isEmpty()) consumer.poll(POLL);
                        polls = false;
                    }
                    case "close" -> {
                        consumer.close();
                        return;
                    }
                    default -> throw new IllegalArgumentException(command.get(0));
                }
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, BlockingQueue<List<String>>> members = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            List<String> words = Arrays.asList(line.trim().split("\\s+"));
            String verb = words.get(0), name = words.get(1);
            List<String> rest = words.subList(2, words.size());
            if (verb.equals("open")) {
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(name, rest));
                consumer.subscribe(rest.subList(4, rest.size()));
                BlockingQueue<List<String>> commands = new LinkedBlockingQueue<>();
                members.put(name, commands);
                Thread thread = new Thread(() -> live(consumer, commands), name);
                thread.setDaemon(true);
                thread.start();
            } else {
                List<String> command = new java.util.ArrayList<>(List.of(verb));
                command.addAll(rest);
                members.get(name).add(command);
            }
        }
    }
}

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A steady producer, or a consumer, on Java's client: see stream_lines.py. */
public class JavaStream {
    private static final int SIZE = 100;
    private static final AtomicBoolean over = new AtomicBoolean();

    private static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    private static void say(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private static Properties settings(String bootstrap, int refreshMs) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        if (refreshMs > 0) settings.put("metadata.max.age.ms", String.valueOf(refreshMs));
        return settings;
    }

    private static byte[] value(long sequence) {
        return String.format("%-" + SIZE + "d", sequence).getBytes(StandardCharsets.US_ASCII);
    }

    private static void produce(Properties settings, String topic, int partition, int perSecond) throws Exception {
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("linger.ms", "0");
        settings.put("key.serializer", ByteArraySerializer.class.getName());
        settings.put("value.serializer", ByteArraySerializer.class.getName());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings)) {
            long begun = System.nanoTime(), next = 0;
            while (!over.get()) {
                while (next < (System.nanoTime() - begun) / 1e9 * perSecond) {
                    long sequence = next++;
                    producer.send(new ProducerRecord<>(topic, partition, null, value(sequence)), (sent, error) -> {
                        if (error == null) say("a " + sequence + " " + now());
                        else say("f " + sequence + " " + now() + " " + error.getClass().getSimpleName());
                    });
                }
                Thread.sleep(Math.max(1, 250 / perSecond));
            }
        }
    }

    private static void consume(Properties settings, String topic, int partition) {
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", ByteArrayDeserializer.class.getName());
        settings.put("value.deserializer", ByteArrayDeserializer.class.getName());
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> where = List.of(new TopicPartition(topic, partition));
            consumer.assign(where);
            consumer.seekToEnd(where);
            while (!over.get()) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    say("r " + new String(record.value(), StandardCharsets.US_ASCII).trim() + " " + now() + " " + record.offset());
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            over.set(true);
            try {
                main.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        Properties settings = settings(arguments[1], Integer.parseInt(arguments[4]));
        int partition = Integer.parseInt(arguments[3]);
        if (arguments[0].equals("produce")) produce(settings, arguments[2], partition, Integer.parseInt(arguments[5]));
        else consume(settings, arguments[2], partition);
    }
}

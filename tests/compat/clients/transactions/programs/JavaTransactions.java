import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A transactional producer that goes on until its standard input ends. Arguments: bootstrap servers, and a topic, whose name is
 * the transactional id, too.
 *
 * Each transaction has one record for each of two partitions, with the transaction's number. Every fifth is aborted. The program
 * prints the number of each transaction that it committed.
 */
public class JavaTransactions {
    private static final int PARTITIONS = 2, ABORT_EVERY = 5;
    private static final long PAUSE_MS = 20;

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("transactional.id", arguments[1]);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("reconnect.backoff.max.ms", "200");
        Thread stdin = new Thread(JavaTransactions::readToEnd);
        stdin.setDaemon(true);
        stdin.start();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            for (int number = 0; stdin.isAlive(); number++) {
                producer.beginTransaction();
                for (int partition = 0; partition < PARTITIONS; partition++) {
                    producer.send(new ProducerRecord<>(arguments[1], partition, null, Integer.toString(number)));
                }
                // commitTransaction takes the new level before it sends what is left, so a partition would be added by nobody.
                producer.flush();
                if (number % ABORT_EVERY == ABORT_EVERY - 1) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                    System.out.println(number);
                }
                Thread.sleep(PAUSE_MS);
            }
        } catch (KafkaException failure) {
            failure.printStackTrace(); // The launcher of source files loses it.
            System.exit(1);
        }
    }

    private static void readToEnd() {
        try {
            while (System.in.read() >= 0) {}
        } catch (java.io.IOException closed) {
            // It ends as well.
        }
    }
}

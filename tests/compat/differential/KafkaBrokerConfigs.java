import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;

/** Prints Kafka's broker configs: one line each with name, type, default, validator, importance, whether it is internal, and scopes. */
public class KafkaBrokerConfigs {
    public static void main(String[] arguments) throws Exception {
        Class<?> dynamic = Class.forName("kafka.server.DynamicBrokerConfig$");
        Map<?, ?> modes = (Map<?, ?>) dynamic.getMethod("dynamicConfigUpdateModes").invoke(dynamic.getField("MODULE$").get(null));
        TreeSet<String> perListener = names(dynamic, "DynamicSecurityConfigs");
        for (ConfigDef.ConfigKey key : new TreeMap<>(kafka.server.KafkaConfig.configDef().configKeys()).values()) {
            Object fallback = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? null : key.defaultValue;
            String scope = perListener.contains(key.name) ? "per-listener" : String.valueOf(modes.get(key.name));
            System.out.println(String.join("\t", key.name, key.type.name(), String.valueOf(ConfigDef.convertToString(fallback, key.type)),
                String.valueOf(key.validator), key.importance.name(), String.valueOf(key.internalConfig), scope));
        }
    }

    private static TreeSet<String> names(Class<?> owner, String field) throws Exception {
        var accessible = owner.getDeclaredField(field);
        accessible.setAccessible(true);
        var found = new TreeSet<String>();
        var each = ((scala.collection.Set<?>) accessible.get(owner.getField("MODULE$").get(null))).iterator();
        while (each.hasNext()) {
            found.add((String) each.next());
        }
        return found;
    }
}

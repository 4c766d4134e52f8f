import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.util.DateUtils;
import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.canal.CanalJsonDecodingFormat;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.connector.source.ScanRuntimeProviderContext;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;
import org.apache.flink.util.Collector;

/**
 * The JVM peers, over the wide corpus in its length-prefixed form: `JvmPeers PEER FILE ROUNDS`. One decoding thread;
 * the figures are CPU time of the whole process, which has the serial collector, so garbage is part of the price and
 * nothing runs beside. Prints one JSON line: MB/s of each round after the warm-up, and sums that show what was decoded.
 */
public final class JvmPeers {
    /** Messages, however small the corpus: compilers need that many until the figures stay, or the peers look too slow. */
    private static final int WARM_UP = 800_000;

    /** Messages: a process's CPU time goes in steps of 10 ms, so a short round says little. */
    private static final int ROUND = 200_000;

    /** Decodes one message and feeds what it made to the sums. */
    interface Peer {
        void decode(byte[] message, Sums sums) throws IOException;
    }

    /**
     * Read from every row image, so no decoding can be left out. Cents leave out the before images of updates: Flink
     * takes a column that another row's `old` names for null (as of 1.20), where it kept its value.
     */
    static final class Sums {
        long images;
        long ids;
        long cents;

        void add(long id, BigDecimal total, boolean before) {
            images++;
            ids += id;
            if (!before) {
                cents += total.unscaledValue().longValue();
            }
        }
    }

    /** The envelope, as canal's own FlatMessage declares it, for fastjson2 to fill. */
    public static final class FlatMessage {
        public long id;
        public String database;
        public String table;
        public List<String> pkNames;
        public Boolean isDdl;
        public String type;
        public Long es;
        public Long ts;
        public String sql;
        public String gtid;
        public Map<String, Integer> sqlType;
        public Map<String, String> mysqlType;
        public List<Map<String, String>> data;
        public List<Map<String, String>> old;
    }

    static final class Order {
        long id;
        long userId;
        String orderNo;
        byte status;
        int quantity;
        BigDecimal total;
        String address;
        String country;
        String remark;
        LocalDate shippedOn;
        LocalDateTime placedAt;
        LocalDateTime updatedAt;

        static Order of(Map<String, String> row) {
            Order order = new Order();
            order.id = Long.parseLong(row.get("id"));
            order.userId = Long.parseLong(row.get("user_id"));
            order.orderNo = row.get("order_no");
            order.status = Byte.parseByte(row.get("status"));
            order.quantity = Integer.parseInt(row.get("quantity"));
            order.total = new BigDecimal(row.get("total")).setScale(2);
            order.address = row.get("address");
            order.country = row.get("country");
            order.remark = row.get("remark");
            order.shippedOn = date(row.get("shipped_on"));
            order.placedAt = DateUtils.parseLocalDateTime(row.get("placed_at"));
            order.updatedAt = DateUtils.parseLocalDateTime(row.get("updated_at"));
            return order;
        }

        private static LocalDate date(String text) {
            return text == null ? null : DateUtils.parseLocalDate(text);
        }
    }

    /** What canal itself reads its messages with, and nothing after it. */
    static void envelope(byte[] message, Sums sums) {
        FlatMessage flat = JSON.parseObject(message, FlatMessage.class);
        sums.images += flat.data.size();
    }

    /** The same, then both images of every row typed. */
    static void typed(byte[] message, Sums sums) {
        FlatMessage flat = JSON.parseObject(message, FlatMessage.class);
        for (int i = 0; i < flat.data.size(); i++) {
            add(Order.of(flat.data.get(i)), sums, false);
            if (flat.old != null) {
                Map<String, String> before = new HashMap<>(flat.data.get(i));
                before.putAll(flat.old.get(i));
                add(Order.of(before), sums, true);
            }
        }
    }

    private static void add(Order order, Sums sums, boolean before) {
        sums.add(order.id, order.total, before);
    }

    static DataType row() {
        return DataTypes.ROW(
                DataTypes.FIELD("id", DataTypes.BIGINT()),
                DataTypes.FIELD("user_id", DataTypes.BIGINT()),
                DataTypes.FIELD("order_no", DataTypes.STRING()),
                DataTypes.FIELD("status", DataTypes.TINYINT()),
                DataTypes.FIELD("quantity", DataTypes.INT()),
                DataTypes.FIELD("total", DataTypes.DECIMAL(10, 2)),
                DataTypes.FIELD("address", DataTypes.STRING()),
                DataTypes.FIELD("country", DataTypes.STRING()),
                DataTypes.FIELD("remark", DataTypes.STRING()),
                DataTypes.FIELD("shipped_on", DataTypes.DATE()),
                DataTypes.FIELD("placed_at", DataTypes.TIMESTAMP(3)),
                DataTypes.FIELD("updated_at", DataTypes.TIMESTAMP(3)));
    }

    /** Flink's canal-json format as its table source builds it, with the event time as a metadata column. */
    static Peer flink() throws Exception {
        CanalJsonDecodingFormat format = new CanalJsonDecodingFormat(null, null, false, TimestampFormat.SQL);
        format.applyReadableMetadata(List.of("event-timestamp", "ingestion-timestamp"));
        int[][] every = new int[12][];
        Arrays.setAll(every, column -> new int[] {column});
        DeserializationSchema<RowData> schema =
                format.createRuntimeDecoder(ScanRuntimeProviderContext.INSTANCE, row(), every);
        schema.open(null);
        return (message, sums) -> schema.deserialize(message, new Collector<>() {
            @Override
            public void collect(RowData row) {
                boolean before = row.getRowKind() == RowKind.UPDATE_BEFORE;
                sums.add(row.getLong(0), before ? null : row.getDecimal(5, 10, 2).toBigDecimal(), before);
            }

            @Override
            public void close() {}
        });
    }

    static Peer peer(String name) throws Exception {
        switch (name) {
            case "flink":
                return flink();
            case "fastjson2":
                return JvmPeers::envelope;
            case "fastjson2-typed":
                return JvmPeers::typed;
            default:
                throw new IllegalArgumentException("no such peer: " + name);
        }
    }

    static List<byte[]> messages(Path file) throws IOException {
        List<byte[]> messages = new ArrayList<>();
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), 1 << 20))) {
            while (true) {
                byte[] message = new byte[in.readInt()];
                in.readFully(message);
                messages.add(message);
            }
        } catch (EOFException end) {
            return messages;
        }
    }

    static Sums decode(List<byte[]> messages, Peer peer) throws IOException {
        Sums sums = new Sums();
        for (byte[] message : messages) {
            peer.decode(message, sums);
        }
        return sums;
    }

    static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    /** How often a corpus is decoded until at least so many messages were. */
    static int passes(List<byte[]> messages, int least) {
        return (least + messages.size() - 1) / messages.size();
    }

    static double megabytesPerSecond(List<byte[]> messages, Peer peer, long bytes) throws IOException {
        int passes = passes(messages, ROUND);
        long start = cpuNanos();
        for (int pass = 0; pass < passes; pass++) {
            decode(messages, peer);
        }
        return passes * bytes * 1e3 / (cpuNanos() - start);
    }

    public static void main(String[] arguments) throws Exception {
        Peer peer = peer(arguments[0]);
        List<byte[]> messages = messages(Path.of(arguments[1]));
        long bytes = messages.stream().mapToLong(message -> message.length).sum();
        Sums sums = decode(messages, peer);
        for (int pass = passes(messages, WARM_UP); pass > 0; pass--) {
            decode(messages, peer);
        }
        List<String> rounds = new ArrayList<>();
        for (int round = 0; round < Integer.parseInt(arguments[2]); round++) {
            rounds.add(String.format(Locale.ROOT, "%.1f", megabytesPerSecond(messages, peer, bytes)));
        }
        System.out.printf("{\"peer\":\"%s\",\"mb_s\":[%s],\"images\":%d,\"ids\":%d,\"cents\":%d}%n",
                arguments[0], String.join(",", rounds), sums.images, sums.ids, sums.cents);
    }
}

// A steady producer, or a consumer, on kafkajs: see stream_lines.py. It consumes in a group, since it has no other way.
const { Kafka, logLevel } = require('kafkajs')

const [mode, bootstrap, topic, partition, refreshMs, perSecond] = process.argv.slice(2)
const [SIZE, TICK_MS, RETRIES] = [100, Math.max(1, 250 / Number(perSecond)), 20]
const refresh = refreshMs === '0' ? {} : { metadataMaxAge: Number(refreshMs) }
const logCreator = () => ({ label, log }) => process.stderr.write(`${label} ${JSON.stringify(log)}\n`)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.WARN, logCreator })
const say = (...words) => process.stdout.write(words.join(' ') + '\n')
const now = () => BigInt(Math.round((performance.timeOrigin + performance.now()) * 1000))
let over = false
process.on('SIGTERM', () => { over = true })
const tick = () => new Promise((resolve) => setTimeout(resolve, TICK_MS))

// Its idempotent producer sends one request at a time: what is due meanwhile goes with the next one.
const produce = async () => {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, retry: { retries: RETRIES }, ...refresh })
  await producer.connect()
  const begun = performance.now()
  let next = 0
  while (!over) {
    const due = Math.floor(((performance.now() - begun) / 1000) * Number(perSecond))
    if (due <= next) {
      await tick()
      continue
    }
    const sequences = Array.from({ length: due - next }, (_, index) => next + index)
    next = due
    const messages = sequences.map((sequence) => ({ partition: Number(partition), value: String(sequence).padEnd(SIZE) }))
    try {
      await producer.send({ topic, acks: -1, messages })
      for (const sequence of sequences) say('a', sequence, now())
    } catch (error) {
      for (const sequence of sequences) say('f', sequence, now(), error.name)
    }
  }
  await producer.disconnect()
}

const consume = async () => {
  const consumer = kafka.consumer({ groupId: `gaps-${process.pid}`, retry: { retries: RETRIES }, ...refresh })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommitThreshold: 1, // after an error it may begin again, from what is committed
    eachBatch: async ({ batch, heartbeat }) => {
      if (batch.partition === Number(partition)) {
        for (const { value, offset } of batch.messages) say('r', value.toString().trim(), now(), offset)
      }
      await heartbeat()
    },
  })
  while (!over) await tick()
  await consumer.disconnect()
}

;({ produce, consume })[mode]().then(() => process.exit(0), (error) => {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
})

// Writes a record as one user and reads the topic in a group as another one, on kafkajs over TLS.
// Argument: a JSON file, as test_secured_clients.py writes it. Prints JSON: the values that it read, or the type of the error.
const { readFileSync } = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const { bootstrap, ca, topic, group, producer: writer, consumer: reader } = JSON.parse(readFileSync(process.argv[2], 'utf8'))

const login = ({ mechanism, user, secret }) =>
  mechanism === 'OAUTHBEARER'
    ? { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: secret }) }
    : { mechanism: mechanism.toLowerCase(), username: user, password: secret }

const connected = (as) => {
  const pem = as.keystore && readFileSync(as.keystore)
  const ssl = { ca: [readFileSync(ca)], ...(pem && { key: pem, cert: pem }) }
  const retry = { retries: 3, initialRetryTime: 50 }
  return new Kafka({ brokers: [bootstrap], ssl, ...(!pem && { sasl: login(as) }), logLevel: logLevel.NOTHING, retry })
}

const say = (facts) => process.stdout.write(JSON.stringify(facts) + '\n')

const main = async () => {
  const producer = connected(writer).producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'of kafkajs' }] })
  await producer.disconnect()
  const consumer = connected(reader).consumer({ groupId: group, maxWaitTimeInMs: 100, heartbeatInterval: 300 })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  const eachBatch = async ({ batch, resolveOffset }) => {
    say({ read: batch.messages.map(({ value }) => value.toString()) })
    resolveOffset(batch.lastOffset())
    setImmediate(async () => {
      await consumer.disconnect() // it commits
      process.exit(0)
    })
  }
  await consumer.run({ eachBatch })
}

main().catch((error) => {
  say({ error: error.cause?.type ?? error.type ?? String(error) })
  process.exit(1)
})

// A member of a group on kafkajs: reads, says what it read, commits it; leaves on SIGTERM.
// What it says, and its arguments, are those of ../said.py.
const { parseArgs } = require('node:util')
const { Kafka, logLevel } = require('kafkajs')

const names = ['bootstrap-server', 'group-id', 'topic', 'pattern', 'group-protocol', 'assignment-strategy', 'group-instance-id', 'session-timeout']
const { values: asked } = parseArgs({ options: Object.fromEntries(names.map((name) => [name, { type: 'string' }])) })

const say = (name, facts = {}) => process.stdout.write(JSON.stringify({ name, ...facts }) + '\n')

const kafka = new Kafka({ brokers: asked['bootstrap-server'].split(','), logLevel: logLevel.WARN, retry: { retries: 20, maxRetryTime: 1000 } })
const sessionTimeout = Number(asked['session-timeout'])
const consumer = kafka.consumer({
  groupId: asked['group-id'],
  sessionTimeout,
  rebalanceTimeout: 20000,
  heartbeatInterval: 300,
  maxWaitTimeInMs: 100,
  metadataMaxAge: 500,
})

let owned = []
const revokeAll = () => {
  if (owned.length > 0) say('partitions_revoked', { partitions: owned })
  owned = []
}
consumer.on(consumer.events.REBALANCING, revokeAll)
consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  revokeAll()
  owned = Object.entries(payload.memberAssignment).flatMap(([topic, partitions]) => partitions.map((partition) => ({ topic, partition })))
  say('partitions_assigned', { partitions: owned })
})
consumer.on(consumer.events.CRASH, ({ payload }) => say('error', { error: String(payload.error) }))

const eachBatch = async ({ batch, resolveOffset, heartbeat }) => {
  const { topic, partition, messages } = batch
  if (messages.length > 0) {
    const [first, last] = [messages[0].offset, messages[messages.length - 1].offset]
    say('records_consumed', { partitions: [{ topic, partition, minOffset: Number(first), maxOffset: Number(last) }] })
    const offset = Number(last) + 1
    let error = null
    try {
      await consumer.commitOffsets([{ topic, partition, offset: String(offset) }])
      resolveOffset(last)
    } catch (reason) {
      error = reason
    }
    say('offsets_committed', { offsets: [{ topic, partition, offset }], success: error === null, error: error && String(error) })
    if (error) throw error
  }
  await heartbeat()
}

const run = async () => {
  await consumer.connect()
  const topic = asked.topic ?? new RegExp(asked.pattern)
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  process.once('SIGTERM', async () => {
    await consumer.disconnect()
    say('shutdown_complete')
    process.exit(0)
  })
  say('startup_complete')
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
}

run().catch((error) => {
  say('error', { error: String(error) })
  process.exit(1)
})

// Copies a topic on kafkajs: each transaction has a batch of records and the position behind it, and every third one is aborted.
// Arguments: bootstrap.servers, source, target, group. Ends when it has copied as many records as the fifth argument says.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, source, target, groupId, count] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId, readUncommitted: false, maxWaitTimeInMs: 100, maxBytesPerPartition: 1024 })
const producer = kafka.producer({ transactionalId: groupId, maxInFlightRequests: 1, idempotent: true })

let copied = 0
let transactions = 0

// `sendOffsets` moves the group's position only: the consumer reads on from the offset that is resolved.
const eachBatch = async ({ batch, resolveOffset }) => {
  if (batch.messages.length === 0) return
  const transaction = await producer.transaction()
  const partitions = [{ partition: batch.partition, offset: (BigInt(batch.lastOffset()) + 1n).toString() }]
  await transaction.send({ topic: target, messages: batch.messages.map(({ key, value }) => ({ key, value })) })
  await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic: source, partitions }] })
  transactions += 1
  if (transactions % 3 === 0) {
    await transaction.abort()
    consumer.seek({ topic: source, partition: batch.partition, offset: batch.firstOffset() })
  } else {
    await transaction.commit()
    resolveOffset(batch.lastOffset())
    copied += batch.messages.length
  }
  if (copied >= Number(count)) setImmediate(end)
}

const end = async () => {
  await consumer.disconnect()
  await producer.disconnect()
  process.exit(0)
}

const main = async () => {
  await producer.connect()
  await consumer.connect()
  await consumer.subscribe({ topics: [source], fromBeginning: true })
  await consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch })
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})

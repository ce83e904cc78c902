// kafkajs as the harness drives it. Its one assignor is called RoundRobinAssigner: to share a group it must go by a name others know.

import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'

import { lz4Compress, lz4Decompress } from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, PartitionAssigners, logLevel } = kafkajs

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4Compress(encoder.buffer),
  decompress: async buffer => lz4Decompress(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zstdCompressSync(encoder.buffer),
  decompress: async buffer => zstdDecompressSync(buffer)
})
const COMPRESSIONS = { none: 'None', gzip: 'GZIP', snappy: 'Snappy', lz4: 'LZ4', zstd: 'ZSTD' }

const string = { type: 'string' }
const { values: options, positionals: [verb] } = parseArgs({
  allowPositionals: true,
  options: {
    bootstrap: string, topic: string, group: string, assignor: string, instance: string, limit: string, count: string,
    partitions: string, compression: string, idempotent: { type: 'boolean' }, 'session-timeout-ms': string
  }
})
const { topic, group } = options
const kafka = new Kafka({
  brokers: [options.bootstrap],
  clientId: 'kafkajs',
  logLevel: logLevel.WARN,
  logCreator: () => ({ namespace, log }) => console.error(namespace, log.message, log.error ?? '')
})

const tell = event => process.stdout.write(JSON.stringify(event) + '\n')
const asRange = context => ({ ...PartitionAssigners.roundRobin(context), name: 'range' })

function check (holds, what) {
  if (!holds) throw new Error(what)
}

async function until (holds, what) {
  for (let tries = 0; tries < 100; tries++) {
    if (await holds()) return
    await new Promise(resolve => setTimeout(resolve, 100))
  }
  throw new Error(`${what}: not within 10 s`)
}

async function produce () {
  const producer = kafka.producer({ idempotent: options.idempotent ?? false })
  await producer.connect()
  const count = Number(options.count)
  const compression = CompressionTypes[COMPRESSIONS[options.compression]]
  for (let first = 0; first < count; first += 500) {
    const messages = []
    for (let i = first; i < Math.min(first + 500, count); i++) {
      messages.push({ partition: i % Number(options.partitions), value: String(i) })
    }
    await producer.send({ topic, acks: -1, compression, messages })
  }
  await producer.disconnect()
}

async function member () {
  const limit = options.limit === undefined ? Infinity : Number(options.limit)
  const consumer = kafka.consumer({
    groupId: group,
    partitionAssigners: [asRange],
    sessionTimeout: Number(options['session-timeout-ms']),
    rebalanceTimeout: 20000,
    heartbeatInterval: 1000,
    maxWaitTimeInMs: 200
  })
  const owns = partitions => tell({ event: 'assigned', partitions })
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => owns(payload.memberAssignment[topic] ?? []))
  consumer.on(consumer.events.REBALANCING, () => owns([]))
  let done
  const finished = new Promise(resolve => { done = resolve })
  createInterface({ input: process.stdin }).on('line', line => line === 'stop' && done())
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    console.error('crash', payload.error, payload.restart)
    if (!payload.restart) process.exit(1)
  })

  let seen = 0
  const positions = new Map()
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachBatchAutoResolve: false,
    eachBatch: async ({ batch, resolveOffset, heartbeat }) => {
      for (const message of batch.messages) {
        if (seen >= limit) return done()
        seen++
        positions.set(batch.partition, String(BigInt(message.offset) + 1n))
        tell({ event: 'record', partition: batch.partition, offset: Number(message.offset), value: message.value.toString() })
        resolveOffset(message.offset)
      }
      if (seen >= limit) done()
      await heartbeat()
    }
  })
  await finished
  if (limit !== Infinity) {
    await consumer.commitOffsets([...positions].map(([partition, offset]) => ({ topic, partition, offset })))
    tell({ event: 'committed' })
  }
  await consumer.disconnect()
}

async function withAdmin (story) {
  const admin = kafka.admin()
  await admin.connect()
  try {
    return await story(admin)
  } finally {
    await admin.disconnect()
  }
}

const partitionsOf = async admin => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length

async function create (admin, partitions) {
  check(await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: partitions }] }), 'the topic was there')
}

async function send (messages) {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, acks: -1, messages })
  await producer.disconnect()
}

async function offsetsByTime (admin) {
  await create(admin, 2)
  const base = Date.now() - 100000
  await send(Array.from({ length: 10 }, (_, i) => ({ partition: 0, value: String(i), timestamp: String(base + i * 1000) })))
  const ends = (await admin.fetchTopicOffsets(topic)).find(found => found.partition === 0)
  check(ends.low === '0' && ends.high === '10', `ends are ${JSON.stringify(ends)}`)
  const at = async time => (await admin.fetchTopicOffsetsByTimestamp(topic, time)).find(found => found.partition === 0).offset
  check(await at(base + 4500) === '5', `between the fifth and the sixth: ${await at(base + 4500)}`)
  check(await at(base) === '0', `at the first: ${await at(base)}`)
  check(await at(base + 90000) === '10', `after the last: ${await at(base + 90000)}`)
  return 'earliest 0, latest 10, at a time between 5, after the last 10'
}

async function adminTopics (admin) {
  await create(admin, 3)
  check((await admin.listTopics()).includes(topic), 'not listed')
  check(await partitionsOf(admin) === 3, 'not three partitions')
  check(!await admin.createTopics({ topics: [{ topic }] }), 'created a second time')
  await admin.createPartitions({ topicPartitions: [{ topic, count: 5 }] })
  await until(async () => await partitionsOf(admin) === 5, 'five partitions')
  const { brokers, controller } = await admin.describeCluster()
  check(brokers.some(broker => broker.nodeId === controller), 'the controller is no broker')
  await admin.deleteTopics({ topics: [topic] })
  await until(async () => !(await admin.listTopics()).includes(topic), 'deleted')
  return 'created with 3 partitions, refused twice, grown to 5, deleted'
}

async function adminGroups (admin) {
  await create(admin, 2)
  await send([{ partition: 0, value: 'a' }, { partition: 1, value: 'b' }, { partition: 1, value: 'c' }])
  const consumer = kafka.consumer({ groupId: group, maxWaitTimeInMs: 200, sessionTimeout: 10000 })
  let seen = 0
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({ eachMessage: async () => { seen++ } })
  await until(() => seen === 3, 'three records')
  check((await admin.listGroups()).groups.some(found => found.groupId === group && found.protocolType === 'consumer'), 'not listed')
  const [described] = (await admin.describeGroups([group])).groups
  check(described.state === 'Stable' && described.members.length === 1, `${described.state}, ${described.members.length} members`)
  await consumer.disconnect()
  const offsets = async () => {
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    return found.partitions.sort((a, b) => a.partition - b.partition).map(({ offset }) => offset).join()
  }
  check(await offsets() === '1,2', `offsets are ${await offsets()}`)
  await admin.setOffsets({ groupId: group, topic, partitions: [{ partition: 1, offset: '1' }] })
  check(await offsets() === '1,1', `set to 1: offsets are ${await offsets()}`)
  await admin.resetOffsets({ groupId: group, topic, earliest: true })
  check(await offsets() === '-2,-2', `reset: offsets are ${await offsets()}`) // it commits the -2 that means "earliest" itself
  await admin.deleteGroups([group])
  check(!(await admin.listGroups()).groups.some(found => found.groupId === group), 'listed after it was deleted')
  return 'listed, described Stable with one member, offsets read, set and reset, deleted'
}

async function configs (admin) {
  await create(admin, 1)
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic }
  const read = async () => {
    const { resources: [found] } = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
    return found.configEntries.find(entry => entry.configName === 'retention.ms').configValue
  }
  check(/^-?\d+$/.test(await read()), `retention.ms is ${await read()}`)
  try {
    await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '123456789' }] }] })
  } catch (error) {
    check(error.name === 'KafkaJSServerDoesNotSupportApiKey', String(error))
    return 'described; it knows only the old AlterConfigs, which this server refuses'
  }
  await until(async () => await read() === '123456789', 'retention.ms altered')
  return 'described, altered with the old AlterConfigs'
}

const OWN = { offsets_by_time: offsetsByTime, admin_topics: adminTopics, admin_groups: adminGroups, configs }

if (verb === 'produce') {
  await produce()
} else if (verb === 'member') {
  await member()
} else {
  try {
    tell({ ok: true, detail: await withAdmin(OWN[verb]) })
  } catch (error) {
    console.error(error)
    tell({ ok: false, detail: String(error) })
  }
}
process.exit(0)

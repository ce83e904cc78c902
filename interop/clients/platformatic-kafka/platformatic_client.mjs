// @platformatic/kafka as the harness drives it.

import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'

import { Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, Producer } from '@platformatic/kafka'

const string = { type: 'string' }
const { values: options, positionals: [verb] } = parseArgs({
  allowPositionals: true,
  options: {
    bootstrap: string, topic: string, group: string, assignor: string, instance: string, limit: string, count: string,
    partitions: string, compression: string, idempotent: { type: 'boolean' }, 'session-timeout-ms': string
  }
})
const { topic, group } = options
const client = { clientId: 'platformatic', bootstrapBrokers: [options.bootstrap] }
const tell = event => process.stdout.write(JSON.stringify(event) + '\n')

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
  const producer = new Producer({ ...client, idempotent: options.idempotent ?? false })
  const count = Number(options.count)
  for (let first = 0; first < count; first += 500) {
    const messages = []
    for (let i = first; i < Math.min(first + 500, count); i++) {
      messages.push({ topic, partition: i % Number(options.partitions), value: Buffer.from(String(i)) })
    }
    await producer.send({ messages, acks: -1, compression: options.compression })
  }
  await producer.close()
}

function consumerOf (settings) {
  return new Consumer({ ...client, groupId: group, autocommit: false, maxWaitTime: 200, ...settings })
}

async function member () {
  const limit = options.limit === undefined ? Infinity : Number(options.limit)
  const consumer = consumerOf({
    groupInstanceId: options.instance,
    protocols: [{ name: options.assignor, version: 1 }],
    sessionTimeout: Number(options['session-timeout-ms']),
    rebalanceTimeout: 20000,
    heartbeatInterval: 1000
  })
  const owned = () => (consumer.assignments ?? []).find(found => found.topic === topic)?.partitions ?? []
  consumer.on('consumer:group:join', () => tell({ event: 'assigned', partitions: owned() }))
  consumer.on('consumer:group:rebalance', () => {
    tell({ event: 'assigned', partitions: options.assignor === 'cooperative-sticky' ? owned() : [] })
  })
  let done
  const finished = new Promise(resolve => { done = resolve })
  createInterface({ input: process.stdin }).on('line', line => line === 'stop' && done())

  let seen = 0
  const positions = new Map()
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' })
  stream.on('error', error => {
    console.error(error)
    process.exit(1)
  })
  stream.on('data', message => {
    if (seen >= limit) return
    seen++
    positions.set(message.partition, message.offset + 1n)
    tell({ event: 'record', partition: message.partition, offset: Number(message.offset), value: message.value.toString() })
    if (seen >= limit) done()
  })
  await finished
  if (limit !== Infinity) {
    const offsets = [...positions].map(([partition, offset]) => ({ topic, partition, offset, leaderEpoch: -1 }))
    await consumer.commit({ offsets })
    tell({ event: 'committed' })
  }
  await consumer.close(true)
}

async function withAdmin (story) {
  const admin = new Admin(client)
  try {
    return await story(admin)
  } finally {
    await admin.close()
  }
}

async function partitionsOf (admin) {
  const metadata = await admin.metadata({ topics: [topic], forceUpdate: true })
  return metadata.topics.get(topic).partitionsCount
}

async function create (admin, partitions) {
  const [created] = await admin.createTopics({ topics: [topic], partitions, replicas: 1 })
  check(created.name === topic && created.partitions === partitions, `created ${JSON.stringify(created)}`)
  await until(async () => await partitionsOf(admin) === partitions, 'the topic is known')
}

async function send (messages) {
  const producer = new Producer(client)
  await producer.send({ acks: -1, messages: messages.map(({ value, ...rest }) => ({ topic, value: Buffer.from(value), ...rest })) })
  await producer.close()
}

async function offsetsByTime (admin) {
  await create(admin, 2)
  const base = BigInt(Date.now() - 100000)
  await send(Array.from({ length: 10 }, (_, i) => ({ partition: 0, value: String(i), timestamp: base + BigInt(i * 1000) })))
  const at = async timestamp => {
    const [found] = await admin.listOffsets({ topics: [{ name: topic, partitions: [{ partitionIndex: 0, timestamp }] }] })
    return found.partitions[0].offset
  }
  const seen = []
  for (const [timestamp, offset] of [[-2n, 0n], [-1n, 10n], [-3n, 9n], [base + 4500n, 5n], [base, 0n], [base + 90000n, -1n]]) {
    check(await at(timestamp) === offset, `at ${timestamp}: ${await at(timestamp)}, not ${offset}`)
    seen.push(offset)
  }
  return `earliest, latest, of the largest time, at a time between, at the first, after the last: ${seen.join()}`
}

async function adminTopics (admin) {
  await create(admin, 3)
  check((await admin.listTopics()).includes(topic), 'not listed')
  const again = await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 }).then(() => 'created a second time', () => '')
  check(again === '', again)
  await admin.createPartitions({ topics: [{ name: topic, count: 5 }] })
  await until(async () => await partitionsOf(admin) === 5, 'five partitions')
  await admin.deleteTopics({ topics: [topic] })
  await until(async () => !(await admin.listTopics()).includes(topic), 'deleted')
  return 'created with 3 partitions, refused twice, grown to 5, deleted'
}

async function adminGroups (admin) {
  await create(admin, 2)
  await send([{ partition: 0, value: 'a' }, { partition: 1, value: 'b' }, { partition: 1, value: 'c' }])
  const consumer = consumerOf({ sessionTimeout: 10000, heartbeatInterval: 1000 })
  let seen = 0
  const stream = await consumer.consume({ topics: [topic], mode: 'committed', fallbackMode: 'earliest' })
  stream.on('data', () => { seen++ })
  await until(() => seen === 3, 'three records')
  await consumer.commit({ offsets: [0, 1].map(partition => ({ topic, partition, offset: BigInt(partition + 1), leaderEpoch: -1 })) })
  const listed = async () => (await admin.listGroups()).has(group)
  check(await listed(), 'not listed')
  const described = (await admin.describeGroups({ groups: [group] })).get(group)
  check(described.state === 'Stable' && described.members.size === 1, `${described.state}, ${described.members.size} members`)
  await consumer.close(true)
  const offsets = async () => {
    const [found] = await admin.listConsumerGroupOffsets({ groups: [group] })
    const partitions = found.topics.flatMap(each => each.partitions).sort((a, b) => a.partitionIndex - b.partitionIndex)
    return partitions.map(each => each.committedOffset).join()
  }
  check(await offsets() === '1,2', `offsets are ${await offsets()}`)
  await admin.alterConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionOffsets: [{ partition: 1, offset: 1n }] }] })
  check(await offsets() === '1,1', `altered to 1: offsets are ${await offsets()}`)
  await admin.deleteConsumerGroupOffsets({ groupId: group, topics: [{ name: topic, partitionIndexes: [0] }] })
  check(await offsets() === '1', `one deleted: offsets are ${await offsets()}`)
  await admin.deleteGroups({ groups: [group] })
  check(!await listed(), 'listed after it was deleted')
  return 'listed, described Stable with one member, offsets read, altered and deleted, group deleted'
}

async function configs (admin) {
  await create(admin, 1)
  const resource = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic }
  const read = async () => {
    const [found] = await admin.describeConfigs({ resources: [{ ...resource, configurationKeys: ['retention.ms'] }] })
    return found.configs.find(entry => entry.name === 'retention.ms').value
  }
  const before = await read()
  const { SET, DELETE } = IncrementalAlterConfigOperationTypes
  const alter = config => admin.incrementalAlterConfigs({ resources: [{ ...resource, configs: [{ name: 'retention.ms', ...config }] }] })
  await alter({ configOperation: SET, value: '123456789' })
  await until(async () => await read() === '123456789', 'retention.ms altered')
  await alter({ configOperation: DELETE })
  await until(async () => await read() === before, 'retention.ms as it was')
  return 'described, altered, put back to its default'
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
    const causes = (error.errors ?? []).map(String).join('; ')
    tell({ ok: false, detail: `${error} ${causes}` })
  }
}
process.exit(0)

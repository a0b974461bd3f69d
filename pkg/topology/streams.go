// Package topology is the bus on one page: every account, stream, subject and
// permission, as values. No other package spells a subject or chooses a stream's settings;
// only the subjects of facts are built by package ledger. A test in e2e/arch checks that.
//
// The page itself is testdata/topology.golden, printed from these values by a test: a
// difference there is a change of the design.
//
// Guarantees:
//
//  1. Streams are provisioned from Streams by Ensure, which refuses a change that
//     could lose data, and names what differs. A bus carries the Number of the topology
//     that it was brought to; Steps names what each number changed. A bus of a newer
//     number is left as it is, or refused when its floor is above this program's Number.
//  2. A server's credentials reach its own document, its own reports and the blobs,
//     and nothing else: see Exports, and the attack tests in package trust.
//  3. A service may publish facts about its own nouns only, its reply subjects included: it has
//     an account of its own and imports exactly what it uses. See Exports, and the attack tests in package trust.
package topology

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The streams' names.
const (
	Intents    = "INTENTS"
	Ledger     = "LEDGER"
	Desired    = "DESIRED"
	Reports    = "REPORTS"
	Blobs      = "BLOBS"
	DeadLetter = "DEADLETTER"
)

// ChunkSize is the size of every chunk of a blob but the last. It leaves room below
// nats-server's default max_payload of 1 MiB.
const ChunkSize = 512 << 10

// MaxBatch is how many messages an atomic batch may hold (nats-server's default limit).
const MaxBatch = 1000

const (
	// ReportsKept is how many reports of each kind the bus keeps of a server.
	ReportsKept = 64
	// DeadLettersKept is how many dead letters the bus keeps of a sender in each stream.
	DeadLettersKept = 16
)

const mib = 1 << 20

// Streams returns every stream, for a cluster that keeps that many replicas.
func Streams(replicas int) []jetstream.StreamConfig {
	streams := append(decisions(), deliveries(persistMode(replicas))...)
	for i := range streams {
		streams[i].Retention = jetstream.LimitsPolicy
		streams[i].Storage = jetstream.FileStorage
		streams[i].Replicas = replicas
	}
	return streams
}

// StreamNamed returns a stream, for a cluster that keeps that many replicas. There may be none of that name.
func StreamNamed(replicas int, name string) (c jetstream.StreamConfig, ok bool) {
	for _, s := range Streams(replicas) {
		if s.Name == name {
			return s, true
		}
	}
	return c, false
}

// decisions returns the streams of what was asked and decided: they are synced for each write.
func decisions() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:        Intents,
			Description: "Requests, from anyone allowed to ask. Answered in the ledger.",
			Subjects:    []string{IntentSubjects},
			Discard:     jetstream.DiscardNew,
			MaxAge:      30 * 24 * time.Hour,
			MaxBytes:    256 * mib,
			MaxMsgSize:  256 << 10,
			Duplicates:  noDuplicates,
			AllowDirect: true,
		},
		{
			Name:               Ledger,
			Description:        "Facts, in total order. The truth, and the audit trail.",
			Subjects:           []string{LedgerSubjects},
			Discard:            jetstream.DiscardNew,
			DenyDelete:         true,
			DenyPurge:          true,
			AllowDirect:        true,
			AllowAtomicPublish: true,
			MaxMsgSize:         mib,
			Duplicates:         2 * time.Minute,
			// Followers take each fact from its announcement, with its body, and read where one is missing.
			RePublish: &jetstream.RePublish{Source: LedgerSubjects, Destination: TailSubject},
		},
		{
			Name:        DeadLetter,
			Description: "Messages that no handler could process, whole, with the reason.",
			Subjects:    []string{DeadLetterSubjects},
			Discard:     jetstream.DiscardOld,
			MaxAge:      90 * 24 * time.Hour,
			MaxBytes:    64 * mib,
			// No sender pushes out another's.
			MaxMsgsPerSubject: DeadLettersKept,
			AllowDirect:       true,
		},
	}
}

// deliveries returns the streams of what travels to servers and back. Documents and reports can be
// made again; chunks cannot.
func deliveries(persist jetstream.PersistModeType) []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name: Desired,
			Description: "One document a server: everything it should have. Rewritten from the ledger at " +
				"any time.",
			Subjects:          []string{DesiredSubjects},
			Discard:           jetstream.DiscardOld,
			MaxMsgsPerSubject: 1,
			MaxMsgSize:        mib,
			AllowDirect:       true,
			PersistMode:       persist,
			// The bell carries the document, so that its server need not read it.
			RePublish: &jetstream.RePublish{
				Source:      DesiredSubjects,
				Destination: BellSubject(ServerAddress{"{{wildcard(1)}}", "{{wildcard(2)}}"}),
			},
		},
		{
			Name:              Reports,
			Description:       "What servers say. A server says it again until it is acknowledged.",
			Subjects:          []string{ReportSubjects},
			Discard:           jetstream.DiscardOld,
			MaxMsgsPerSubject: ReportsKept,
			MaxAge:            30 * 24 * time.Hour,
			MaxMsgSize:        256 << 10,
			Duplicates:        noDuplicates,
			AllowDirect:       true,
			PersistMode:       persist,
		},
		{
			Name:                 Blobs,
			Description:          "The content of images, one subject a chunk.",
			Subjects:             []string{ChunkSubjects},
			Discard:              jetstream.DiscardNew,
			DiscardNewPerSubject: true,
			MaxMsgsPerSubject:    1,
			MaxMsgSize:           mib,
			AllowDirect:          true,
		},
	}
}

// noDuplicates is the shortest window for message ids that nats-server takes. The publishers to these
// streams send none: an id belongs to the stream, so one publisher could use another's and have its messages
// thrown away. The window also bounds the memory that ids take.
const noDuplicates = 100 * time.Millisecond

// persistMode spares a single server one disk sync a message on streams that can be
// made again: documents from the ledger, reports from a server's outbox. nats-server
// refuses it for replicated streams, where syncs are grouped anyway.
func persistMode(replicas int) jetstream.PersistModeType {
	if replicas == 1 {
		return jetstream.AsyncPersistMode
	}
	return jetstream.DefaultPersistMode
}

// Consumer is a durable consumer that replicas of one service share.
type Consumer struct {
	Stream, Durable string
	Filter          string // one subject filter; a list would scan the stream
}

// The durable consumers.
var (
	RegistryIntents = Consumer{Intents, "registry", IntentSubjects}
	RegistryAgents  = Consumer{Reports, "registry-agents", ReportsOf(ReportAgents)}
	RegistrySysinfo = Consumer{Reports, "registry-sysinfo", ReportsOf(ReportSysinfo)}
	RegistryReceipt = Consumer{Reports, "registry-receipt", ReportsOf(ReportReceipt)}
	DispatcherTasks = Consumer{Reports, "task-dispatcher", ReportsOf(ReportTask)}
	AllConsumers    = []Consumer{RegistryIntents, RegistryAgents, RegistrySysinfo, RegistryReceipt, DispatcherTasks}
	MaxDeliver      = 20
)

const (
	// AckWait is how long after a process was killed the messages that it held are delivered
	// again. A process that lives says that they are in progress; see package bus.
	AckWait = 5 * time.Second
	// MaxAckPending is how many messages a consumer delivers before they are settled.
	MaxAckPending = 1000
)

// Kept returns how many messages of one sender the consumer's stream keeps; 0 means all.
func (c Consumer) Kept() int {
	if c.Stream == Reports {
		return ReportsKept
	}
	return 0
}

// Config returns the consumer as JetStream wants it.
func (c Consumer) Config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       c.Durable,
		FilterSubject: c.Filter,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       AckWait,
		MaxDeliver:    -1, // package bus counts deliveries and writes a dead letter; the server would drop the message
		MaxAckPending: MaxAckPending,
		DeliverPolicy: jetstream.DeliverAllPolicy,
	}
}

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
	Quarantine = "QUARANTINE"
)

// ChunkSize is the size of every chunk of a blob but the last. It leaves room below
// nats-server's default max_payload of 1 MiB.
const ChunkSize = 512 << 10

// MaxBatch is how many messages an atomic batch may hold (nats-server's default limit).
const MaxBatch = 1000

const mib = 1 << 20

// Streams gives every stream, for a cluster that keeps that many replicas.
func Streams(replicas int) []jetstream.StreamConfig {
	streams := append(decisions(), deliveries(persistMode(replicas))...)
	for i := range streams {
		streams[i].Retention = jetstream.LimitsPolicy
		streams[i].Storage = jetstream.FileStorage
		streams[i].Replicas = replicas
	}
	return streams
}

// decisions gives the streams of what was asked and decided: they are synced for each write.
func decisions() []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:        Intents,
			Description: "Requests, from anyone allowed to ask. Answered in the ledger.",
			Subjects:    []string{"garrison.intent.*.*.*"},
			Discard:     jetstream.DiscardNew,
			MaxAge:      30 * 24 * time.Hour,
			MaxBytes:    256 * mib,
			MaxMsgSize:  256 << 10,
			Duplicates:  10 * time.Minute,
		},
		{
			Name:               Ledger,
			Description:        "Facts, in total order. The truth, and the audit trail.",
			Subjects:           []string{"garrison.ledger.>"},
			Discard:            jetstream.DiscardNew,
			DenyDelete:         true,
			DenyPurge:          true,
			AllowDirect:        true,
			AllowAtomicPublish: true,
			MaxMsgSize:         mib,
			Duplicates:         2 * time.Minute,
			// Whoever watches hears that there is something new, and reads it.
			RePublish: &jetstream.RePublish{Source: "garrison.ledger.>", Destination: TailSubject, HeadersOnly: true},
		},
		{
			Name:        Quarantine,
			Description: "Messages that could not be handled, whole, with the reason.",
			Subjects:    []string{"garrison.quarantine.*"},
			Discard:     jetstream.DiscardOld,
			MaxAge:      90 * 24 * time.Hour,
			MaxBytes:    64 * mib,
			AllowDirect: true,
		},
	}
}

// deliveries gives the streams of what travels to servers and back. Documents and reports can be made again; chunks cannot.
func deliveries(persist jetstream.PersistModeType) []jetstream.StreamConfig {
	return []jetstream.StreamConfig{
		{
			Name:              Desired,
			Description:       "One document a server: everything it should have. Rewritten from the ledger at any time.",
			Subjects:          []string{"garrison.desired.*.*"},
			Discard:           jetstream.DiscardOld,
			MaxMsgsPerSubject: 1,
			MaxMsgSize:        mib,
			AllowDirect:       true,
			PersistMode:       persist,
			RePublish:         &jetstream.RePublish{Source: "garrison.desired.*.*", Destination: "garrison.bell.{{wildcard(1)}}.{{wildcard(2)}}", HeadersOnly: true},
		},
		{
			Name:              Reports,
			Description:       "What servers say. A server says it again until it is acknowledged.",
			Subjects:          []string{"garrison.report.*.*.*"},
			Discard:           jetstream.DiscardOld,
			MaxMsgsPerSubject: 64,
			MaxAge:            30 * 24 * time.Hour,
			MaxMsgSize:        256 << 10,
			Duplicates:        2 * time.Minute,
			AllowDirect:       true,
			PersistMode:       persist,
		},
		{
			Name:                 Blobs,
			Description:          "The content of images, one subject a chunk.",
			Subjects:             []string{"garrison.blob.*.*"},
			Discard:              jetstream.DiscardNew,
			DiscardNewPerSubject: true,
			MaxMsgsPerSubject:    1,
			MaxMsgSize:           mib,
			AllowDirect:          true,
		},
	}
}

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

// ServerBackoff is the longest that a server waits before it tries again to reach the bus,
// so that a large fleet does not come back all at once. Who hears nothing of a server after
// an absence of the bus gives it that long.
const ServerBackoff = time.Minute

// The durable consumers.
var (
	RegistryIntents = Consumer{Intents, "registry", "garrison.intent.*.*.*"}
	RegistryAgents  = Consumer{Reports, "registry-agents", "garrison.report.*.*." + ReportAgents}
	RegistrySysinfo = Consumer{Reports, "registry-sysinfo", "garrison.report.*.*." + ReportSysinfo}
	RegistryReceipt = Consumer{Reports, "registry-receipt", "garrison.report.*.*." + ReportReceipt}
	DispatcherTasks = Consumer{Reports, "task-dispatcher", "garrison.report.*.*." + ReportTask}
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

// Config gives the consumer as JetStream wants it.
func (c Consumer) Config() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       c.Durable,
		FilterSubject: c.Filter,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       AckWait,
		MaxDeliver:    -1, // the shell counts deliveries and quarantines; the server would only forget
		MaxAckPending: MaxAckPending,
		DeliverPolicy: jetstream.DeliverAllPolicy,
	}
}

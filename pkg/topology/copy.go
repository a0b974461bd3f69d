package topology

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Copy is the stream with the copy of the ledger, in the account COPY: the same facts under the same subjects and
// sequences. It is a mirror, so it is read-only, and it is fed by one consumer of the ledger that provisioning
// declares. The mirror may restart that consumer and no more: it cannot choose where CORE delivers.
const Copy = "AUDIT"

const (
	// copyConsumer feeds the copy. No user may have its name, which is in upper case.
	copyConsumer = "AUDIT"
	// copySubject is where CORE hands the ledger's facts to the copy. Nothing listens in CORE.
	copySubject = "garrison.copy"
	// copyPending is how many facts are on their way to the copy.
	copyPending = 1000
	// copyAckPending is how many facts a consumer of the copy may have delivered that are not acknowledged.
	copyAckPending = 10_000
	// copyHeartbeat is the only one that nats-server takes for such a consumer.
	copyHeartbeat = time.Second
	// metadataCopied is when the ledger was created whose copy the stream is.
	metadataCopied = "garrison.copied_created"
)

// CopyConsumers is how many consumers the copy has at most. Their state takes disk.
const CopyConsumers = 256

// CopyBounds is how much of the ledger the copy keeps; the older facts go from the copy alone. Without bytes there is
// no copy.
type CopyBounds struct {
	Age   time.Duration // 0 means that age alone removes nothing
	Bytes int64
}

// CopyStream returns the stream of the copy of a ledger that was created at a time.
func CopyStream(b CopyBounds, replicas int, ledgerCreated time.Time) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:           Copy,
		Description:    "A copy of the ledger, for any NATS client. Old facts go from the copy alone.",
		Retention:      jetstream.LimitsPolicy,
		Storage:        jetstream.FileStorage,
		Discard:        jetstream.DiscardOld,
		MaxAge:         b.Age,
		MaxBytes:       b.Bytes,
		DenyDelete:     true,
		DenyPurge:      true,
		AllowDirect:    true,
		Replicas:       replicas,
		ConsumerLimits: jetstream.StreamConsumerLimits{MaxAckPending: copyAckPending},
		Metadata:       map[string]string{metadataCopied: ledgerCreated.UTC().Format(time.RFC3339Nano)},
		Mirror: &jetstream.StreamSource{
			Name:     Ledger,
			External: &jetstream.ExternalStream{APIPrefix: copyAPI},
			Consumer: &jetstream.StreamConsumerSource{Name: copyConsumer, DeliverSubject: copySubject},
		},
	}
}

// copyFeed is the consumer that feeds the copy.
func copyFeed() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:        copyConsumer,
		DeliverSubject: copySubject,
		DeliverPolicy:  jetstream.DeliverAllPolicy,
		AckPolicy:      jetstream.AckFlowControlPolicy,
		MaxAckPending:  copyPending,
		FlowControl:    true,
		IdleHeartbeat:  copyHeartbeat,
	}
}

// CopyPlan is what brings the copy of the ledger to its bounds. Nothing is changed before Apply.
type CopyPlan struct {
	Changes []Change
	core    jetstream.JetStream
}

// Apply changes what is planned.
func (p CopyPlan) Apply(ctx context.Context) error {
	return Plan{Changes: p.Changes}.apply(ctx, p.core)
}

// LookCopy compares the copy of the ledger with its bounds, over a connection to CORE and one to COPY. A copy of
// another ledger, as after a restore, is made anew, as is one that cannot follow its ledger: see copyState. The bus of
// a newer program has no changes, and neither has one without a ledger.
func LookCopy(ctx context.Context, core, audit jetstream.JetStream, b CopyBounds, replicas int) (CopyPlan, error) {
	p := CopyPlan{core: core}
	config, err := streamConfig(ctx, core, Ledger)
	if err != nil {
		return p, fmt.Errorf("look at stream %s: %w", Ledger, err)
	}
	if config == nil || NumbersOf(config.Metadata).Newer() || IsFenced(*config) {
		return p, nil
	}
	var have copyState
	if err := have.look(ctx, core, audit); err != nil {
		return p, fmt.Errorf("look at the copy of the ledger: %w", err)
	}
	p.compare(audit, have, CopyStream(b, replicas, have.ledger.Created))
	return p, nil
}

// copyState is what there is of a copy.
type copyState struct {
	feed   *jetstream.ConsumerInfo // nil without one, as the next
	stream *jetstream.StreamInfo
	ledger *jetstream.StreamInfo
}

// look reads the state. The order matters while facts are written: what is read first is never ahead of the rest.
func (s *copyState) look(ctx context.Context, core, audit jetstream.JetStream) error {
	feed, err := core.PushConsumer(ctx, Ledger, copyConsumer)
	if err == nil {
		s.feed = feed.CachedInfo()
	} else if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	copied, err := audit.Stream(ctx, Copy)
	if err == nil {
		s.stream = copied.CachedInfo()
	} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	ledger, err := core.Stream(ctx, Ledger)
	if err == nil {
		s.ledger = ledger.CachedInfo()
	}
	return err
}

// follows reports whether the copy has its feed, and what it must hold: no fact that the ledger lost at its end, all
// that its feed takes for delivered, and no fewer in its middle than the ledger.
func (s copyState) follows() bool {
	return s.stream != nil && s.feed != nil && s.stream.State.NumDeleted <= s.ledger.State.NumDeleted &&
		s.feed.AckFloor.Stream <= s.stream.State.LastSeq && s.stream.State.LastSeq <= s.ledger.State.LastSeq
}

// compare notes what differs.
func (p *CopyPlan) compare(audit jetstream.JetStream, have copyState, want jetstream.StreamConfig) {
	switch {
	case want.MaxBytes == 0:
		p.drop(audit, have, "is deleted, with the positions of all that read it")
	case !have.follows() || !sameCopy(have.stream.Config, want):
		p.drop(audit, have, "is deleted, with the positions of all that read it, to be made anew")
		p.note("consumer "+copyConsumer+" of "+Ledger, "is created", func(ctx context.Context) error {
			_, err := p.core.CreatePushConsumer(ctx, Ledger, copyFeed())
			return err
		})
		p.note("stream "+Copy, "is created", func(ctx context.Context) error {
			_, err := audit.CreateStream(ctx, want)
			return err
		})
	case have.stream.Config.MaxAge != want.MaxAge || have.stream.Config.MaxBytes != want.MaxBytes:
		is := have.stream.Config
		how := fmt.Sprintf("keeps %v and %d bytes, want %v and %d", is.MaxAge, is.MaxBytes, want.MaxAge, want.MaxBytes)
		p.note("stream "+Copy, how, func(ctx context.Context) error {
			_, err := audit.UpdateStream(ctx, want)
			return err
		})
	}
}

// drop notes that what there is of a copy is deleted.
func (p *CopyPlan) drop(audit jetstream.JetStream, have copyState, how string) {
	if have.stream != nil {
		p.note("stream "+Copy, how, func(ctx context.Context) error {
			return unless(jetstream.ErrStreamNotFound, audit.DeleteStream(ctx, Copy))
		})
	}
	if have.feed != nil {
		p.note("consumer "+copyConsumer+" of "+Ledger, how, func(ctx context.Context) error {
			return unless(jetstream.ErrConsumerNotFound, p.core.DeleteConsumer(ctx, Ledger, copyConsumer))
		})
	}
}

func (p *CopyPlan) note(what, how string, apply func(context.Context) error) {
	p.Changes = append(p.Changes, Change{What: what, How: how, apply: func(
		ctx context.Context, _ jetstream.JetStream,
	) error {
		return apply(ctx)
	}})
}

// unless returns an error but the expected one.
func unless(expected, err error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}

// sameCopy reports whether a stream is a copy of the same ledger that needs no more than other bounds.
func sameCopy(have, want jetstream.StreamConfig) bool {
	return have.Metadata[metadataCopied] == want.Metadata[metadataCopied] && have.Replicas == want.Replicas &&
		have.Mirror != nil && have.Mirror.Consumer != nil && *have.Mirror.Consumer == *want.Mirror.Consumer
}

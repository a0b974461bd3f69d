package topology

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Bus is how a bus is to be set up.
type Bus struct {
	Replicas    int  // how many servers keep each stream
	SyncsAlways bool // each write is on the disk before it is acknowledged
}

// Plan is what brings a bus to this topology. Nothing is changed before Apply.
type Plan struct {
	From    Numbers  // of the bus; 0 for a new one and for one from before there were numbers, with contract 1
	New     bool     // the bus has no streams yet
	Steps   []Step   // the named steps to this topology
	Changes []Change // in this order; the ledger's comes last, because it carries the number
}

// Change is one thing that is created or changed on a bus.
type Change struct {
	What  string // such as "stream INTENTS"
	How   string // such as "subjects are [a], want [a b]"
	apply func(context.Context, jetstream.JetStream) error
}

func (c Change) String() string { return c.What + ": " + c.How }

// Ensure brings a bus to this topology and returns what that took. See Look.
func Ensure(ctx context.Context, js jetstream.JetStream, b Bus) (Plan, error) {
	p, err := Look(ctx, js, b)
	if err != nil {
		return p, err
	}
	return p, p.apply(ctx, js)
}

// Look compares a bus with this topology. It refuses, with everything that is wrong, a
// difference that could lose data, and a bus that only a newer program may use. A newer
// bus that this program may use has no changes.
func Look(ctx context.Context, js jetstream.JetStream, b Bus) (Plan, error) {
	return look(ctx, js, b, Streams(b.Replicas))
}

func look(ctx context.Context, js jetstream.JetStream, b Bus, streams []jetstream.StreamConfig) (p Plan, err error) {
	have := map[string]*jetstream.StreamConfig{}
	for _, want := range streams {
		if have[want.Name], err = streamConfig(ctx, js, want.Name); err != nil {
			return p, fmt.Errorf("look at stream %s: %w", want.Name, err)
		}
	}
	if l := have[Ledger]; l != nil {
		p.From = NumbersOf(l.Metadata)
	}
	if err := p.From.Check("the bus"); err != nil || p.From.Newer() {
		return p, err
	}
	if err := refuseMoved(have); err != nil {
		return p, err
	}
	p.Steps = stepsAfter(p.From.Number)
	p.New = have[Ledger] == nil
	if err := p.compareStreams(have, streams, b); err != nil {
		return p, err
	}
	if err := p.moveDeadLetters(ctx, js, streams); err != nil {
		return p, err
	}
	return p, p.compareConsumers(ctx, js, have)
}

// compareStreams notes what differs, and refuses what could lose data.
func (p *Plan) compareStreams(have map[string]*jetstream.StreamConfig, streams []jetstream.StreamConfig, b Bus) error {
	var lossy []string
	for _, want := range streams {
		is := have[want.Name]
		if want.Name == Ledger {
			want.Metadata = metadata(metadataOf(is), is == nil, b.SyncsAlways)
		} else {
			want.Metadata = metadataOf(is)
		}
		if is == nil {
			p.Changes = append(p.Changes, changeStream(want, "is created"))
			continue
		}
		var how []string
		for _, d := range Drift(*is, want) {
			if how = append(how, d.String()); d.Lossy {
				lossy = append(lossy, want.Name+": "+d.String())
			}
		}
		if len(how) > 0 {
			p.Changes = append(p.Changes, changeStream(want, strings.Join(how, "; ")))
		}
	}
	if len(lossy) == 0 {
		return nil
	}
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: code.TopologyLossy, Component: "topology",
		Message: fmt.Sprintf(
			"the streams on the bus, of topology %d, differ from topology %d in ways that could lose data; "+
				"nothing was changed: %s",
			p.From.Number,
			Number,
			strings.Join(lossy, "; "),
		),
		Try: "the version that set the bus up",
	})
}

func changeStream(want jetstream.StreamConfig, how string) Change {
	return Change{
		What: "stream " + want.Name,
		How:  how,
		apply: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateOrUpdateStream(ctx, want)
			return err
		},
	}
}

// compareConsumers notes the durable consumers that are missing or differ.
func (p *Plan) compareConsumers(
	ctx context.Context, js jetstream.JetStream, have map[string]*jetstream.StreamConfig,
) error {
	for _, c := range AllConsumers {
		how := "is created"
		if have[c.Stream] != nil {
			is, err := js.Consumer(ctx, c.Stream, c.Durable)
			switch {
			case err == nil && sameConsumer(is.CachedInfo().Config, c.Config()):
				continue // not written again: a bus without room starts as it is
			case err == nil:
				how = "is changed"
			case !errors.Is(err, jetstream.ErrConsumerNotFound):
				return fmt.Errorf("look at consumer %s of %s: %w", c.Durable, c.Stream, err)
			}
		}
		p.Changes = append(p.Changes, changeConsumer(c, how))
	}
	slices.SortStableFunc(p.Changes, func(a, b Change) int { return last(a) - last(b) })
	return nil
}

func changeConsumer(c Consumer, how string) Change {
	what := "consumer " + c.Durable + " of " + c.Stream
	return Change{What: what, How: how, apply: func(ctx context.Context, js jetstream.JetStream) error {
		_, err := js.CreateOrUpdateConsumer(ctx, c.Stream, c.Config())
		return err
	}}
}

// last is 1 for the change that comes last.
func last(c Change) int {
	if c.What == "stream "+Ledger {
		return 1
	}
	return 0
}

func (p Plan) apply(ctx context.Context, js jetstream.JetStream) error {
	for _, c := range p.Changes {
		if err := c.apply(ctx, js); err != nil {
			return fmt.Errorf("provision %s: %w", c.What, err)
		}
	}
	return nil
}

// streamConfig returns a stream's configuration, or nil when there is no such stream.
func streamConfig(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamConfig, error) {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &s.CachedInfo().Config, nil
}

func metadataOf(c *jetstream.StreamConfig) map[string]string {
	if c == nil {
		return nil
	}
	return c.Metadata
}

// sameConsumer compares the settings that topology decides.
func sameConsumer(have, want jetstream.ConsumerConfig) bool {
	return have.FilterSubject == want.FilterSubject &&
		have.AckPolicy == want.AckPolicy &&
		have.AckWait == want.AckWait &&
		have.MaxDeliver == want.MaxDeliver &&
		have.MaxAckPending == want.MaxAckPending &&
		have.DeliverPolicy == want.DeliverPolicy
}

// Difference is one setting of a stream that is not as it should be.
type Difference struct {
	Setting    string
	Have, Want any
	Lossy      bool // changing it could lose data, or weakens a promise
}

func (d Difference) String() string {
	return fmt.Sprintf("%s is %v, want %v", d.Setting, d.Have, d.Want)
}

// Drift compares the settings that topology decides; what the server fills in by itself is not drift.
func Drift(have, want jetstream.StreamConfig) []Difference {
	var out []Difference
	check := func(setting string, have, want any, lossy bool) {
		if !reflect.DeepEqual(have, want) {
			out = append(out, Difference{setting, have, want, lossy})
		}
	}
	check("subjects", have.Subjects, want.Subjects, loses(have.Subjects, want.Subjects))
	check("retention", have.Retention, want.Retention, true)
	check("storage", have.Storage, want.Storage, true)
	check("persist_mode", have.PersistMode, want.PersistMode, true)
	check("discard", have.Discard, want.Discard, true)
	check("discard_new_per_subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject, true)
	check("max_age", have.MaxAge, want.MaxAge, shorter(int64(have.MaxAge), int64(want.MaxAge)))
	check("max_bytes", limit(have.MaxBytes), limit(want.MaxBytes), shorter(limit(have.MaxBytes), limit(want.MaxBytes)))
	// Dead letters are a sample: their stream discards old ones by size anyway.
	check("max_msgs_per_subject", limit(have.MaxMsgsPerSubject), limit(want.MaxMsgsPerSubject),
		want.Name != DeadLetter && shorter(limit(have.MaxMsgsPerSubject), limit(want.MaxMsgsPerSubject)))
	check("max_msg_size", limit(int64(have.MaxMsgSize)), limit(int64(want.MaxMsgSize)), false)
	check("replicas", have.Replicas, want.Replicas, have.Replicas > want.Replicas)
	check("deny_delete", have.DenyDelete, want.DenyDelete, true)
	check("deny_purge", have.DenyPurge, want.DenyPurge, true)
	check("allow_direct", have.AllowDirect, want.AllowDirect, false)
	check("allow_atomic_publish", have.AllowAtomicPublish, want.AllowAtomicPublish, false)
	check("republish", have.RePublish, want.RePublish, false)
	if want.Duplicates != 0 {
		check("duplicate_window", have.Duplicates, want.Duplicates, false)
	}
	for _, key := range []string{MetadataNumber, MetadataFloor, MetadataContract, MetadataSync} {
		check(key, have.Metadata[key], want.Metadata[key], false)
	}
	return out
}

// loses reports whether a stream that has some subjects would no longer take one of them.
func loses(have, want []string) bool {
	return slices.ContainsFunc(have, func(s string) bool {
		return !slices.ContainsFunc(want, func(w string) bool { return covers(w, s) })
	})
}

// covers reports whether a pattern is another one, or its prefix followed by everything.
func covers(wide, pattern string) bool {
	prefix, all := strings.CutSuffix(wide, ">")
	return wide == pattern || all && strings.HasPrefix(pattern, prefix) && len(pattern) > len(prefix)
}

// limit turns the server's -1 for unlimited into 0.
func limit(n int64) int64 { return max(n, 0) }

// shorter reports whether going from have to want tightens a limit; 0 means no limit.
func shorter(have, want int64) bool { return want != 0 && (have == 0 || want < have) }

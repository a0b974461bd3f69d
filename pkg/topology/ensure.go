package topology

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// Ensure creates the streams and durable consumers that are missing and updates those
// that differ. A difference that could lose data is refused with a Conflict that lists
// it, and nothing is changed.
func Ensure(ctx context.Context, js jetstream.JetStream, replicas int) error {
	// Every stream is looked at before the first is changed.
	for _, step := range []func(context.Context, jetstream.JetStream, jetstream.StreamConfig) error{checkStream, ensureStream} {
		for _, want := range Streams(replicas) {
			if err := step(ctx, js, want); err != nil {
				return fmt.Errorf("provision stream %s: %w", want.Name, err)
			}
		}
	}
	for _, c := range AllConsumers {
		if err := ensureConsumer(ctx, js, c); err != nil {
			return fmt.Errorf("provision consumer %s of %s: %w", c.Durable, c.Stream, err)
		}
	}
	return nil
}

// ensureStream creates a stream, or updates one that differs; checkStream allowed that.
func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, want)
		return err
	}
	if err == nil && len(Drift(s.CachedInfo().Config, want)) > 0 {
		_, err = js.UpdateStream(ctx, want)
	}
	return err
}

// ensureConsumer creates a consumer, or updates one that differs. One that is right is
// not written again: a bus without room starts as it is.
func ensureConsumer(ctx context.Context, js jetstream.JetStream, c Consumer) error {
	have, err := js.Consumer(ctx, c.Stream, c.Durable)
	if err == nil && sameConsumer(have.CachedInfo().Config, c.Config()) {
		return nil
	}
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
		_, err = js.CreateOrUpdateConsumer(ctx, c.Stream, c.Config())
	}
	return err
}

// sameConsumer compares the settings that topology decides.
func sameConsumer(have, want jetstream.ConsumerConfig) bool {
	return have.FilterSubject == want.FilterSubject && have.AckPolicy == want.AckPolicy && have.AckWait == want.AckWait &&
		have.MaxDeliver == want.MaxDeliver && have.MaxAckPending == want.MaxAckPending && have.DeliverPolicy == want.DeliverPolicy
}

// checkStream refuses a stream that could only be made right by losing data.
func checkStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	drift := Drift(s.CachedInfo().Config, want)
	var lossy []string
	for _, d := range drift {
		if d.Lossy {
			lossy = append(lossy, d.String())
		}
	}
	if len(lossy) > 0 {
		return fault.New(fault.Conflict, "the stream on the bus differs in ways that could lose data: %s", strings.Join(lossy, "; "))
	}
	return nil
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
	check("subjects", have.Subjects, want.Subjects, true)
	check("retention", have.Retention, want.Retention, true)
	check("storage", have.Storage, want.Storage, true)
	check("persist_mode", have.PersistMode, want.PersistMode, true)
	check("discard", have.Discard, want.Discard, true)
	check("discard_new_per_subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject, true)
	check("max_age", have.MaxAge, want.MaxAge, shorter(int64(have.MaxAge), int64(want.MaxAge)))
	check("max_bytes", limit(have.MaxBytes), limit(want.MaxBytes), shorter(limit(have.MaxBytes), limit(want.MaxBytes)))
	check("max_msgs_per_subject", limit(have.MaxMsgsPerSubject), limit(want.MaxMsgsPerSubject), shorter(limit(have.MaxMsgsPerSubject), limit(want.MaxMsgsPerSubject)))
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
	return out
}

// limit turns the server's -1 for unlimited into 0.
func limit(n int64) int64 { return max(n, 0) }

// shorter says whether going from have to want tightens a limit, where 0 is none.
func shorter(have, want int64) bool { return want != 0 && (have == 0 || want < have) }

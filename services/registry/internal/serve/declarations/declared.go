// Package declarations answers requests about what people declare: applications, environments and agents.
package declarations

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	noun "github.com/garrison-fleet/garrison/pkg/noun/declared"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
)

// declaration is a record that operators declare: an application, an environment or an agent.
type declaration interface {
	proto.Message
	comparable
	GetName() string
	GetDescription() string
	GetMetadata() map[string]string
	GetRevision() uint64
	GetChangedBy() string
	GetChangedAt() *timestamppb.Timestamp
	GetCreatedAt() *timestamppb.Timestamp
	GetChanged() []string
	GetOwners() []*ownerv1.FieldOwner
}

// declared creates, changes and deletes the records of one declared noun.
type declared[T declaration] struct {
	records *records.Records
	noun    ledger.Noun
	command string // of the CLI, for the noun

	created, changed func(T) proto.Message // the facts
	deleted          proto.Message
	get              func(string) (T, bool)  // of the view
	unknown          func(name string) error // refuses a name that the view does not have
	check            func(T) error           // the noun's own fields; nil without any
	// fits checks a record against the view; nil without a check. have is nil for a new record.
	fits  func(have, next T) error
	users func(name string) (n int, what, list string) // what prevents deletion
	// concerns returns the instances that the record configures, and the view after the record is changed to it.
	concerns func(next T) (concern, after)
}

// create records a new declaration and returns it as recorded.
func (d *declared[T]) create(ctx context.Context, c bus.Caller, next T) (T, error) {
	return d.put(ctx, c, next, func(have T, exists bool) (proto.Message, error) {
		if exists {
			return nil, request.AlreadyExists(string(d.noun), next.GetName(), d.command+" show "+next.GetName())
		}
		return d.created(noun.Bare(next)), nil
	})
}

// change replaces a declaration and returns it as recorded. It is safe to run twice: a record that
// is the same already writes nothing, whatever revision the request is based on.
func (d *declared[T]) change(ctx context.Context, c bus.Caller, next T) (T, error) {
	return d.put(ctx, c, next, func(have T, exists bool) (proto.Message, error) {
		if !exists {
			return nil, d.unknown(next.GetName())
		}
		if proto.Equal(noun.Bare(have), noun.Bare(next)) {
			return nil, nil
		}
		if err := d.checkRevision(have, next.GetRevision()); err != nil {
			return nil, err
		}
		return d.changed(noun.Bare(next)), nil
	})
}

// put checks a record, records the fact that decision returns, and returns the record after it.
func (d *declared[T]) put(
	ctx context.Context, c bus.Caller, next T, decision func(have T, exists bool) (proto.Message, error),
) (out T, err error) {
	if err := d.validate(next); err != nil {
		return out, err
	}
	name := next.GetName()
	err = d.records.Change(ctx, func() ([]ledger.Draft, error) {
		have, exists := d.get(name)
		body, err := decision(have, exists)
		if err != nil || body == nil {
			return nil, err
		}
		if err := metadata.CheckKeptSecret(have.GetMetadata(), next.GetMetadata()); err != nil {
			return nil, err
		}
		if d.fits != nil {
			if err := d.fits(have, next); err != nil {
				return nil, err
			}
		}
		if err := d.checkSchemas(have, next); err != nil {
			return nil, err
		}
		return []ledger.Draft{d.records.ByCaller(c, d.noun, name, body)}, nil
	})
	if err != nil {
		return out, err
	}
	err = d.records.Decider.Query(ctx, func() error {
		have, exists := d.get(name)
		if !exists { // deleted since
			return d.unknown(name)
		}
		out = proto.CloneOf(have)
		return nil
	})
	return out, err
}

// checkSchemas refuses a new record or a change that breaks the schema of an agent. It must run inside Read.
func (d *declared[T]) checkSchemas(have, next T) error {
	var none T
	if have != none && !configures(noun.Changed(have, next)) {
		return nil
	}
	c, view := d.concerns(next)
	if refusal := broken(d.records, view, c); refusal != nil {
		return fault.Refuse(fault.Invalid, refusal)
	}
	return nil
}

// outdated returns the instances that a configure would change after a change of a record.
func (d *declared[T]) outdated(changed T) []*registryv1.Outdated {
	if !configures(changed.GetChanged()) {
		return nil
	}
	c, _ := d.concerns(changed)
	return outdatedBy(d.records, c)
}

// delete deletes a record that nothing uses.
func (d *declared[T]) delete(ctx context.Context, c bus.Caller, name string, revision uint64) error {
	return d.records.Change(ctx, func() ([]ledger.Draft, error) {
		have, exists := d.get(name)
		if !exists {
			return nil, d.unknown(name)
		}
		if err := d.checkRevision(have, revision); err != nil {
			return nil, err
		}
		if n, what, list := d.users(name); n > 0 {
			return nil, inUse(string(d.noun), name, n, what, list)
		}
		return []ledger.Draft{d.records.ByCaller(c, d.noun, name, d.deleted)}, nil
	})
}

// validate checks the fields of a record that need no view.
func (d *declared[T]) validate(next T) error {
	if err := ident.CheckName(string(d.noun), next.GetName()); err != nil {
		return request.BadName(err)
	}
	if d.check != nil {
		if err := d.check(next); err != nil {
			return err
		}
	}
	if err := metadata.Check(next.GetMetadata()); err != nil {
		return err
	}
	if err := metadata.CheckSealed(d.records.Secrets, next.GetMetadata()); err != nil {
		return err
	}
	if err := request.CheckOwners(next.GetOwners()); err != nil {
		return err
	}
	if o, ok := any(next).(interface{ GetOrigin() string }); ok {
		if err := request.CheckOrigin(o.GetOrigin()); err != nil {
			return err
		}
	}
	return request.CheckDescription(next.GetDescription())
}

// putting returns a handler of requests that hold a record and are answered with one.
func putting[Q, R proto.Message, T declaration](
	write func(context.Context, bus.Caller, T) (T, error), record func(Q) T, answer func(T) R,
) func(context.Context, bus.Caller, Q) (R, error) {
	return func(ctx context.Context, c bus.Caller, q Q) (resp R, err error) {
		out, err := write(ctx, c, record(q))
		if err != nil {
			return resp, err
		}
		return answer(out), nil
	}
}

// deleting returns a handler of requests to delete the record with a name.
func deleting[Q interface {
	proto.Message
	GetName() string
	GetIfRevision() uint64
}, R proto.Message, T declaration](d *declared[T], answer R) func(context.Context, bus.Caller, Q) (R, error) {
	return func(ctx context.Context, c bus.Caller, q Q) (resp R, err error) {
		if err := d.delete(ctx, c, q.GetName(), q.GetIfRevision()); err != nil {
			return resp, err
		}
		return answer, nil
	}
}

// inUse refuses to delete a record that others use.
func inUse(noun, name string, n int, what, try string) error {
	if n == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	return fault.Refusef(fault.Conflict, code.InUse, "%s %q has %d %s", noun, name, n, what).Try(try)
}

// checkRevision refuses a request that is based on another revision than the record has; 0 is based on none.
func (d *declared[T]) checkRevision(have T, based uint64) error {
	if based == 0 || based == have.GetRevision() {
		return nil
	}
	what, at := "created it", have.GetCreatedAt()
	if have.GetChangedAt() != nil {
		what, at = "changed "+strings.Join(have.GetChanged(), ", "), have.GetChangedAt()
	}
	return fault.Refusef(fault.Conflict, code.RevisionChanged,
		"%s %q has revision %d, not %d: %s %s at %s", d.noun, have.GetName(), have.GetRevision(), based,
		have.GetChangedBy(), what, at.AsTime().UTC().Format(time.RFC3339)).
		Try(fmt.Sprintf("%s show %s, and then the change again", d.command, have.GetName()))
}

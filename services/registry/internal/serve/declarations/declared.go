// Package declarations answers requests about what people declare: applications, environments and agents.
package declarations

import (
	"fmt"
	"iter"
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
	"github.com/garrison-fleet/garrison/pkg/page"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
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
	get              func(string) (T, bool) // of the view
	rows             func(after string) iter.Seq2[string, T]
	unknown          func(name string) error // refuses a name that the view does not have
	check            func(T) error           // the noun's own fields; nil without any
	// fits checks a record against the view; nil without a check. have is nil for a new record.
	fits  func(have, next T) error
	users func(name string) (n int, what, list string) // what prevents deletion
	// concerns returns the instances that the record configures, and the view after the record is changed to it.
	concerns func(next T) (concern, after)
}

// kept returns how the noun is kept.
func (d *declared[T]) kept() table.Kept {
	return &table.Noun[T]{
		Name: d.noun, Show: d.command + " show NAME",
		Get: d.get, Unknown: d.unknown, Check: d.validate, Put: d.put, Outdated: d.outdated,
		Ended: d.ended, End: d.deleted, Row: proto.CloneOf[T],
		Rows: func(after string, _ *registryv1.ListRecordsRequest) (iter.Seq2[string, T], error) {
			return page.Cloned(d.rows(after)), nil
		},
	}
}

// put drafts the fact that creates or changes a record; none when it is as requested already. It must run inside Read.
func (d *declared[T]) put(p table.Put[T]) ([]ledger.Draft, error) {
	var none T
	body := d.created
	if p.Have != none {
		if proto.Equal(noun.Bare(p.Have), noun.Bare(p.Next)) {
			return nil, nil
		}
		if err := d.checkRevision(p.Have, p.Next.GetRevision()); err != nil {
			return nil, err
		}
		body = d.changed
	}
	if err := metadata.CheckKeptSecret(p.Have.GetMetadata(), p.Next.GetMetadata()); err != nil {
		return nil, err
	}
	if d.fits != nil {
		if err := d.fits(p.Have, p.Next); err != nil {
			return nil, err
		}
	}
	if err := d.checkSchemas(p.Have, p.Next); err != nil {
		return nil, err
	}
	return []ledger.Draft{d.records.ByCaller(p.Caller, d.noun, p.Key, body(noun.Bare(p.Next)))}, nil
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

// ended returns the record to delete, which nothing may use. It must run inside Read.
func (d *declared[T]) ended(_ bus.Caller, q *registryv1.DeleteRecordRequest) ([]T, error) {
	have, exists := d.get(q.Key)
	if !exists {
		return nil, d.unknown(q.Key)
	}
	if err := d.checkRevision(have, q.IfRevision); err != nil {
		return nil, err
	}
	if n, what, list := d.users(q.Key); n > 0 {
		return nil, inUse(string(d.noun), q.Key, n, what, list)
	}
	return []T{have}, nil
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
		Try(fmt.Sprintf("%s show %s", d.command, have.GetName()))
}

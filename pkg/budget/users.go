package budget

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	blockv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/block/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// refusals is how many bytes of refused intents a user may cause beyond the budget. Later intents are dead letters, of
// which a sender has sixteen.
const refusals = 1 << 20

// Limits is how many bytes of facts a user may cause in a day; 0 means the defaults.
type Limits struct {
	User, Reporter uint64
}

// Urgent returns the limits for what takes back or holds: an eighth more, which is kept for it.
func (l Limits) Urgent() Limits { return Limits{User: l.of("") / 8 * 9, Reporter: l.Reporter} }

// of returns the limit of an account.
func (l Limits) of(account string) uint64 {
	if strings.HasSuffix(account, ofReports) {
		return cmp.Or(l.Reporter, DefaultReporter)
	}
	return cmp.Or(l.User, DefaultUser)
}

// ofReports ends the account of what a user reports of external instances; what the user requests has another one.
const ofReports = "/reports"

// account returns the key of the account to which a user's facts of a noun are charged.
func account(actor string, noun ledger.Noun) string {
	if noun == ledger.External {
		return actor + ofReports
	}
	return actor
}

// Users is what each user requested, and apart from that reported, on the day of the last fact. It is part of a view.
type Users struct{ *fold.Table[*serverv1.Intake] }

// NewUsers returns an empty table of users.
func NewUsers() Users { return Users{fold.NewTable[*serverv1.Intake]("writer")} }

// Apply charges a fact to the user whose request, intent or report led to it. Facts that a server or a service caused
// are not charged to users. The first fact of a user on a day forgets those who wrote on earlier days only.
func (u Users) Apply(f ledger.Fact) {
	_, caused := ledger.ServerOfCause(f.Cause)
	if caused || f.Actor == "" || slices.Contains(topology.Services, f.Actor) {
		return
	}
	key := account(f.Actor, f.Noun)
	have, known := u.Get(key)
	if day := dayOf(f.At); !known || have.Day < day {
		for other, in := range u.All() {
			if in.Day < day {
				u.Forget(other)
			}
		}
	}
	u.Put(key, Charge(have, f), f.Sequence)
}

// Today returns the accounts that were charged on the day of a time and sort after one, by user.
func (u Users) Today(l Limits, after string, now time.Time) iter.Seq2[string, *registryv1.Writer] {
	return func(yield func(string, *registryv1.Writer) bool) {
		for _, key := range slices.Sorted(maps.Keys(maps.Collect(u.All()))) {
			in, _ := u.Get(key)
			if key <= after || in.Day != dayOf(now) {
				continue
			}
			w := &registryv1.Writer{
				Actor: strings.TrimSuffix(key, ofReports), Bytes: in.Bytes, Facts: in.Facts, BudgetBytes: l.of(key),
				Over: Over(in, l.of(key), now),
			}
			if !yield(key, w) {
				return
			}
		}
	}
}

// Left returns how many bytes of facts of a noun a user may still cause.
func (u Users) Left(l Limits, actor string, noun ledger.Noun, now time.Time) uint64 {
	key := account(actor, noun)
	in, _ := u.Get(key)
	most := l.of(key)
	return most - min(most, Used(in, now))
}

// Refusal returns why a user may cause no facts of a noun that take that many bytes, or nil.
func (u Users) Refusal(l Limits, actor string, noun ledger.Noun, bytes uint64, now time.Time) *apiv1.Refusal {
	key := account(actor, noun)
	in, _ := u.Get(key)
	if u.Left(l, actor, noun, now) >= bytes {
		return nil
	}
	flag := "--user-budget"
	if noun == ledger.External {
		flag = "--reporter-budget"
	}
	midnight := now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	return &apiv1.Refusal{
		Code: code.UserBudget, Try: "garrison events --actor " + actor,
		Message: fmt.Sprintf("what %s requested wrote %s in %d facts on %s (UTC), and the budget is %s a day (%s); "+
			"it is renewed in %s", actor, MiB(in.GetBytes()), in.GetFacts(), now.UTC().Format(time.DateOnly),
			MiB(l.of(key)), flag,
			midnight.Sub(now).Round(time.Minute)),
	}
}

// Beyond reports whether a user is so far over the budget that refusals are no longer recorded.
func (u Users) Beyond(l Limits, actor string, now time.Time) bool {
	in, _ := u.Get(actor)
	return Used(in, now) >= l.of(actor)+refusals
}

// Allow refuses facts that a request led to when its user is over the budget, unless each of them stops something.
func (u Users) Allow(l Limits, drafts []ledger.Draft, now time.Time) error {
	for _, d := range drafts {
		if !strings.HasPrefix(d.Cause, ledger.CausedByRequest("")) || stops(d.Body) {
			continue
		}
		limits := l
		if holds(d.Body) {
			limits = l.Urgent()
		}
		if why := u.Refusal(limits, d.Actor, d.Noun, 1, now); why != nil {
			return fault.Refuse(fault.Unavailable, why)
		}
	}
	return nil
}

// holds reports whether a fact holds or takes back something, a hold as well.
func holds(body proto.Message) bool {
	switch body.(type) {
	case *holdv1.Hold, *holdv1.Unset, *blockv1.Block, *intentv1.Withdrawn:
		return true
	}
	return false
}

// stops reports whether a fact stops something. Each of these happens once to a record, until another fact that is
// refused.
func stops(body proto.Message) bool {
	switch body.(type) {
	case *rolloutv1.Paused, *rolloutv1.Aborted, *serverv1.Quarantined, *serverv1.Revoked:
		return true
	}
	return false
}

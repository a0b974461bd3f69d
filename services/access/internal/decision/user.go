// Package decision decides who becomes a user, whose credentials are signed again, and who is revoked.
// Its functions are pure: given the view, the time and the request, they return the facts to record.
package decision

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/user"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

// The longest time for which credentials are signed at once, and the shortest.
const (
	LongestValidity  = 400 * 24 * time.Hour
	ShortestValidity = time.Minute
)

// renewEvery bounds the facts that one user's renewals cause: a renewal so soon after another one
// extends nothing.
const renewEvery = time.Hour

const maxReason = 256

var roles = map[userv1.Role]topology.Role{
	userv1.Role_ROLE_VIEWER:   topology.Viewer,
	userv1.Role_ROLE_OPERATOR: topology.Operator,
	userv1.Role_ROLE_ADMIN:    topology.Admin,
	userv1.Role_ROLE_REPORTER: topology.Reporter,
	userv1.Role_ROLE_APPROVER: topology.Approver,
	userv1.Role_ROLE_AUDITOR:  topology.Auditor,
}

// RoleOf returns the role that the contract names; "" for one that it does not.
func RoleOf(r userv1.Role) topology.Role { return roles[r] }

// Create decides that a person gets credentials. It returns what to sign.
func Create(
	v *view.View, p trust.Person, validFor *durationpb.Duration, at time.Time,
) (trust.Person, []ledger.Draft, error) {
	lasting := trust.PersonValidFor
	if validFor != nil {
		lasting = validFor.AsDuration()
	}
	switch {
	case trust.CheckPerson(p.Name) != nil:
		return p, nil, refuse(fault.Invalid, code.BadName, "%v", trust.CheckPerson(p.Name))
	case !slices.Contains(topology.Roles, p.Role):
		return p, nil, refuse(fault.Invalid, code.Invalid,
			"a user needs a role: viewer, operator, admin, reporter, approver or auditor")
	case lasting < ShortestValidity || lasting > LongestValidity:
		return p, nil, refuse(fault.Invalid, code.Invalid,
			"credentials for %v are refused; want from %v to %d days", lasting, ShortestValidity,
			LongestValidity/(24*time.Hour))
	case trust.CheckPublicKey(p.PublicKey) != nil:
		return p, nil, refuse(fault.Invalid, code.BadKey, "%v", trust.CheckPublicKey(p.PublicKey))
	}
	p.Expires = at.Add(lasting).UTC().Truncate(time.Second)
	if u, err := v.User(p.Name, at); err == nil && u.State == userv1.State_STATE_ACTIVE {
		return p, nil, refuse(fault.Conflict, code.Exists, "user %s exists, as %s", p.Name, RoleOf(u.Role)).
			Try("garrison user list")
	}
	if owner := v.OwnerOf(topology.AccountOfRole(p.Role), p.PublicKey); owner != "" {
		return p, nil, refuse(fault.Conflict, code.BadKey, "the public key belongs to %s", owner)
	}
	return p, on(v, p.Name, created(p)), nil
}

// Adopt decides that credentials that were created without this service become a user's.
func Adopt(v *view.View, p trust.Person, at time.Time) []ledger.Draft {
	expired := !p.Expires.IsZero() && !at.Before(p.Expires)
	if expired || v.OwnerOf(topology.AccountOfRole(p.Role), p.PublicKey) != "" || trust.CheckPerson(p.Name) != nil {
		return nil
	}
	return on(v, p.Name, created(p))
}

func created(p trust.Person) *userv1.Created {
	b := &userv1.Created{PublicKey: p.PublicKey}
	for proto, r := range roles {
		if r == p.Role {
			b.Role = proto
		}
	}
	if !p.Expires.IsZero() {
		b.ExpiresAt = timestamppb.New(p.Expires)
	}
	return b
}

// Revoke decides that a user is revoked. One who is revoked stays as it is. The last admin is revoked by force only.
func Revoke(v *view.View, q *accessv1.RevokeUserRequest, at time.Time) ([]ledger.Draft, error) {
	name, reason := q.GetName(), q.GetReason()
	if len(reason) > maxReason || !utf8.ValidString(reason) ||
		strings.ContainsFunc(reason, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, refuse(fault.Invalid, code.Invalid, "a reason must be printable and have %d bytes at most",
			maxReason)
	}
	u, err := v.User(name, at)
	if err != nil {
		return nil, err
	}
	if u.State == userv1.State_STATE_REVOKED {
		return nil, nil
	}
	if !q.GetForce() && v.IsLastAdmin(name, at) {
		return nil, refuse(fault.Invalid, code.LastAdmin,
			"%s is the last admin. With --force it is revoked, and another one then takes the host of garrisond: "+
				"delete operator.json in its directory, and restart garrisond (deploy/docs/garrisond.md)", name).
			Try("garrison user create NAME --role admin")
	}
	return on(v, name, &userv1.Revoked{Reason: reason}), nil
}

// Renew decides that the credentials of a user's key are signed again, for as long as before. It
// returns what to sign. A renewal soon after another one is signed for the same time.
func Renew(v *view.View, name, public string, at time.Time) (trust.Person, []ledger.Draft, error) {
	p := trust.Person{Name: name, PublicKey: public}
	u, err := v.User(name, at)
	if err != nil {
		return p, nil, err
	}
	k := user.KeyOf(u, public)
	if k == nil || user.Expired(k, at) {
		return p, nil, refuse(fault.Denied, code.BadKey,
			"the key %.60s is not a key of %s, or it is revoked", public, name).
			Try("new credentials from an admin")
	}
	p.Role = RoleOf(k.Role)
	if k.ExpiresAt == nil {
		return p, nil, nil
	}
	lasting := time.Duration(k.ValidForS) * time.Second
	p.Expires = at.Add(lasting).UTC().Truncate(time.Second)
	if p.Expires.Sub(k.ExpiresAt.AsTime()) < min(renewEvery, lasting/4) {
		p.Expires = k.ExpiresAt.AsTime()
		return p, nil, nil
	}
	return p, on(v, name, &userv1.Renewed{PublicKey: public, ExpiresAt: timestamppb.New(p.Expires)}), nil
}

// on drafts a fact about a user, guarded by its key.
func on(v *view.View, name string, body proto.Message) []ledger.Draft {
	f := ledger.Fact{Noun: ledger.User, Key: name, Body: body}
	return []ledger.Draft{ledger.OnKey(f, v.UserSequence(name))}
}

func refuse(kind fault.Kind, code, format string, args ...any) *fault.Error {
	return fault.Refusef(kind, code, format, args...).From(ledger.Access)
}

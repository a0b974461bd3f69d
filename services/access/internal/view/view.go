// Package view is the view of access: every user, every server, and every key for which credentials
// were signed that may still be valid. It answers which of those keys the bus must refuse.
package view

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	"github.com/garrison-fleet/garrison/pkg/noun/user"
	"github.com/garrison-fleet/garrison/pkg/topology"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

// Layout is the version of the tables; raise it when they or the fold change.
const Layout = 5

// Nouns are the nouns that the view folds.
var Nouns = []ledger.Noun{ledger.User, ledger.Server, ledger.Token}

// View is users, servers, pooled tokens and keys.
type View struct {
	users   *fold.Table[*userv1.User]        // by name
	servers *fold.Table[*serverv1.Server]    // by id; only their life and their keys
	tokens  *fold.Table[*tokenv1.Token]      // by name
	keys    *fold.Table[*accessv1.KeyRecord] // by account and public key

	// Built from the tables.
	expiry   *expiry // of keys
	refusals refusals
}

// New returns an empty view.
func New() *View {
	return &View{
		users:   fold.NewTable[*userv1.User]("user"),
		servers: fold.NewTable[*serverv1.Server]("server"),
		tokens:  fold.NewTable[*tokenv1.Token]("token"),
		keys:    fold.NewTable[*accessv1.KeyRecord]("key"),

		expiry:   newExpiry(),
		refusals: newRefusals(),
	}
}

// Tables returns the tables, for snapshots.
func (v *View) Tables() []fold.Stored { return []fold.Stored{v.users, v.servers, v.tokens, v.keys} }

// Loaded builds the indexes from the tables.
func (v *View) Loaded() {
	v.expiry, v.refusals = newExpiry(), newRefusals()
	for key, k := range v.keys.All() {
		v.expiry.add(key, k)
		for _, owner := range ownersOf(k) {
			v.refusals.own(owner, key)
		}
	}
}

// Apply folds one fact.
func (v *View) Apply(f ledger.Fact) (fit bool) {
	v.dropExpired(f.At)
	v.refusals.touched[f.Key] = true
	switch f.Noun {
	case ledger.User:
		if fit = v.applyUser(f); !fit {
			v.users.Touch(f.Key, f.Sequence)
		}
	case ledger.Server:
		if fit = v.applyServer(f); !fit {
			v.servers.Touch(f.Key, f.Sequence)
		}
	case ledger.Token:
		if fit = v.applyToken(f); !fit {
			v.tokens.Touch(f.Key, f.Sequence)
		}
	}
	return fit
}

func (v *View) applyUser(f ledger.Fact) bool {
	have, _ := v.users.Get(f.Key)
	next, fit := user.Apply(have, f)
	if !fit {
		return false
	}
	switch b := f.Body.(type) {
	case *userv1.Created:
		v.signed(b.PublicKey, accountOf(b.Role), f, b.ExpiresAt)
	case *userv1.Renewed:
		v.signed(b.PublicKey, accountOf(user.KeyOf(next, b.PublicKey).GetRole()), f, b.ExpiresAt)
	}
	v.users.Put(f.Key, next, f.Sequence)
	return true
}

// accountOf returns the account of users with a role.
func accountOf(r userv1.Role) string {
	if r == userv1.Role_ROLE_AUDITOR {
		return topology.AccountAudit
	}
	return topology.AccountOps
}

func (v *View) applyServer(f ledger.Fact) bool {
	have, _ := v.servers.Get(f.Key)
	next, fit := server.Apply(have, f)
	if !fit {
		return false
	}
	switch b := f.Body.(type) {
	case *serverv1.Invited:
		v.signed(b.GuestKey, topology.AccountGuests, f, b.ExpiresAt)
	case *serverv1.Reinvited:
		v.signed(b.GuestKey, topology.AccountGuests, f, b.ExpiresAt)
	case *serverv1.Enrolled:
		v.signed(b.PublicKey, topology.AccountNodes, f, b.ExpiresAt)
	case *serverv1.CredentialsRenewed:
		v.signed(b.PublicKey, topology.AccountNodes, f, b.ExpiresAt)
	}
	if next == nil {
		v.servers.Drop(f.Key, f.Sequence)
		return true
	}
	v.servers.Put(f.Key, slim(next), f.Sequence)
	return true
}

func (v *View) applyToken(f ledger.Fact) bool {
	have, _ := v.tokens.Get(f.Key)
	next, fit := token.Apply(have, f)
	if !fit {
		return false
	}
	if b, ok := f.Body.(*tokenv1.Token); ok {
		v.signed(b.GuestKey, topology.AccountGuests, f, b.ExpiresAt)
	}
	next.Labels, next.FromAddresses, next.SecretSha256, next.Reason = nil, nil, nil, ""
	v.tokens.Put(f.Key, next, f.Sequence)
	return true
}

// slim drops from a server's record what does not decide whether it may connect.
func slim(s *serverv1.Server) *serverv1.Server {
	s.Labels, s.Sysinfo, s.Found, s.FoundAtDeath, s.Tombstone = nil, nil, nil, nil, nil
	s.RuleLabels, s.LobbyFingerprint = nil, ""
	s.Condition, s.CleanUp, s.TokenSha256, s.Reason = nil, nil, nil, ""
	return s
}

// signed records that credentials were signed for a key.
func (v *View) signed(public, account string, f ledger.Fact, expires *timestamppb.Timestamp) {
	if public == "" {
		return // of a fact from before keys were recorded
	}
	key := keyOf(account, public)
	k, ok := v.keys.Get(key)
	if !ok {
		k = &accessv1.KeyRecord{Account: account, Owner: f.Key, ExpiresAt: expires}
		v.refusals.own(f.Key, key)
		v.keys.Put(key, k, f.Sequence)
		v.expiry.add(key, k)
		return
	}
	if f.Key != k.Owner && !slices.Contains(k.OtherOwners, f.Key) {
		k.OtherOwners = append(k.OtherOwners, f.Key)
		v.refusals.own(f.Key, key)
	}
	v.keys.Put(key, k, f.Sequence)
	if k.ExpiresAt == nil || expires != nil && !expires.AsTime().After(k.ExpiresAt.AsTime()) {
		return // earlier credentials are valid for longer
	}
	v.expiry.remove(key, k)
	k.ExpiresAt = expires
	v.expiry.add(key, k)
	v.refusals.renewed(account)
}

// keyOf returns the key in the table of a public key in an account.
func keyOf(account, public string) string { return account + "." + public }

// dropExpired drops the keys whose credentials have expired at a time.
func (v *View) dropExpired(at time.Time) {
	for _, key := range v.expiry.before(at.Add(-leeway)) {
		if k, ok := v.keys.Get(key); ok {
			v.expiry.remove(key, k)
			v.refusals.forget(key, k)
			v.keys.Forget(key)
		}
	}
}

// leeway is how far the clocks of the bus and of the writers of facts may differ.
const leeway = time.Hour

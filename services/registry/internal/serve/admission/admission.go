// Package admission invites, enrols and renews servers: tokens for one or many, the lobby, credentials.
package admission

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/pace"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
)

const (
	defaultValidity = time.Hour
	longestValidity = 30 * 24 * time.Hour
	secretBytes     = 32
)

// everyServer stands for every server in selectors, so no server can have it as a name.
const everyServer = "all"

// Config is what the admission of servers rests on.
type Config struct {
	Signer    signing.Signer         // nil without keys
	JoinURL   string                 // where invited servers find the bus
	CA        func() ([]byte, error) // the CAs of the bus, or nil
	ImageKeys seal.Keys              // servers that enrol install only images that one of them signed
	Lasting   time.Duration          // how long credentials are valid
}

// Desk invites servers and enrols them.
type Desk struct {
	records   *records.Records
	Signer    signing.Signer         // nil without keys
	joinURL   string                 // where invited servers find the bus
	ca        func() ([]byte, error) // the CAs of the bus, or nil
	imageKeys seal.Keys
	lasting   time.Duration // how long credentials are valid
	pace      *pace.Pace    // of enrolments and renewals, a server
	Idle      *pace.Pace    // of requests to enrol that admit no server, a sender
	refusals  *logs.Pacer
	pools     *pools
	log       zerolog.Logger
}

// New returns the desk that admits servers, with its pooled tokens.
func New(r *records.Records, c Config, log zerolog.Logger) *Desk {
	a := &Desk{
		records: r, Signer: c.Signer, joinURL: c.JoinURL, ca: c.CA, imageKeys: c.ImageKeys, lasting: c.Lasting,
		pace: pace.New(requestsAMinute, time.Minute), Idle: pace.New(IdleASecond, time.Second),
		refusals: logs.NewPacer(), log: log,
	}
	a.pools = &pools{Desk: a}
	return a
}

// Token creates a token, and returns the public half of the key in it.
func (a *Desk) Token(id, cell string, expires *timestamppb.Timestamp) (t trust.Token, guestKey string, err error) {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails: crypto/rand ends the process instead
	ca, err := a.busCA()
	if err != nil {
		return t, "", err
	}
	pins, err := trust.Pins(ca)
	if err != nil {
		return t, "", fmt.Errorf("read the CA of the bus: %w", err)
	}
	guest, err := a.Signer.Guest(id, cell, expires.AsTime())
	if err != nil {
		return t, "", fmt.Errorf("sign the invitation: %w", err)
	}
	return trust.Token{
		URL: a.joinURL, ServerID: id, Cell: cell, Secret: base64.RawURLEncoding.EncodeToString(secret),
		JWT: guest.JWT, Seed: string(guest.Seed), Pins: pins,
	}, guest.PublicKey, nil
}

// SumOf returns the sum of the secret of a token, which is all that the ledger holds of it.
func SumOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// busCA returns the CAs that servers are sent, as PEM; none means those of their operating system.
func (a *Desk) busCA() ([]byte, error) {
	if a.ca == nil {
		return nil, nil
	}
	ca, err := a.ca()
	if err != nil {
		return nil, fault.New(fault.Unavailable, "read the CA of the bus: %w", err)
	}
	return ca, nil
}

// invitation checks a request and fills in the defaults.
func (a *Desk) invitation(q *registryv1.InviteServerRequest) (*serverv1.Invited, error) {
	if a.Signer == nil {
		return nil, fault.New(fault.Unavailable, "this registry has no signing keys, so it cannot invite servers")
	}
	i := &serverv1.Invited{
		Name:        q.Name,
		Cell:        q.Cell,
		Labels:      q.Labels,
		Environment: q.Environment,
		Ownership:   q.Ownership,
	}
	if i.Cell == "" {
		i.Cell = topology.DefaultCell
	}
	if i.Ownership == serverv1.Ownership_OWNERSHIP_UNSPECIFIED {
		i.Ownership = serverv1.Ownership_OWNERSHIP_MANUAL
	}
	if err := CheckServerName(i.Name); err != nil {
		return nil, err
	}
	if err := ident.CheckName("cell", i.Cell); err != nil {
		return nil, request.BadName(err)
	}
	if err := request.CheckNewLabels(i.Labels); err != nil {
		return nil, err
	}
	if err := checkInvitedID(q.ServerId); err != nil {
		return nil, err
	}
	if q.Owner.GetName() != "" {
		i.Owners = []*ownerv1.FieldOwner{q.Owner}
	}
	if err := request.CheckOwners(i.Owners); err != nil {
		return nil, err
	}
	var err error
	i.ExpiresAt, err = a.TokenExpiry(q.ValidFor)
	return request.Answer(i, err)
}

// TokenExpiry returns until when a token is valid that is made now; unset means for an hour.
func (a *Desk) TokenExpiry(requested *durationpb.Duration) (*timestamppb.Timestamp, error) {
	valid := defaultValidity
	if requested != nil {
		valid = requested.AsDuration()
	}
	if valid <= 0 || valid > longestValidity {
		return nil, request.Invalid(code.Invalid,
			"a token valid for %v; want more than 0 and at most %v", valid, longestValidity)
	}
	return timestamppb.New(a.records.Now().Add(valid).UTC()), nil
}

// checkInvitedID refuses a malformed id of a server that will come; empty means a new one.
func checkInvitedID(id string) error {
	if id == "" {
		return nil
	}
	if err := ident.Check("server", id); err != nil {
		return request.Invalid(code.BadName, "%v", err)
	}
	return nil
}

// unusedID refuses the id of a server. The id of a forgotten one, which the view no longer knows, is refused by
// the guard on its key: the tombstone of a dead server would end its successor too. It must run inside Read.
func (a *Desk) unusedID(id string) error {
	if s, ok := a.records.View.Server(id); ok {
		return fault.Refusef(fault.Conflict, code.Exists, "server %s has the id %s", s.Name, id).
			Try("garrison server show " + id)
	}
	return nil
}

// CheckServerName refuses a malformed name of a server.
func CheckServerName(name string) error {
	if err := ident.CheckHostname("server", name); err != nil {
		return request.BadName(err)
	}
	if ident.IsUUID(name) {
		return request.Invalid(code.BadName, "server name %q looks like an id", name)
	}
	if name == everyServer {
		return request.Invalid(code.BadName, "a server cannot be named %q, which selects every server", name)
	}
	return nil
}

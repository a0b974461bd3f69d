package admission

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/trust"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
)

// guests signs the credentials of guests only.
type guests struct{ signing.Signer }

func (guests) Guest(string, string, time.Time) (trust.Guest, error) {
	return trust.Guest{PublicKey: "guest", JWT: "jwt", Seed: []byte("seed")}, nil
}

func TestAWrongTokenIsNotCreated(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	tokens := NewTokens(New(w.Records, Config{Signer: guests{}}, zerolog.Nop()), zerolog.Nop())
	type ask = *registryv1.CreateTokenRequest
	for name, c := range map[string]struct {
		change func(ask)
		code   string
	}{
		"as it should be": {func(ask) {}, ""},
		"no uses":         {func(q ask) { q.Uses = 0 }, code.Invalid},
		"too many uses":   {func(q ask) { q.Uses = 100_001 }, code.Invalid},
		"no name":         {func(q ask) { q.Name = "" }, code.BadName},
		"a dot":           {func(q ask) { q.Name = "a.b" }, code.BadName},
		"an id":           {func(q ask) { q.Name = "01a1fc88-01b0-78a7-8be5-02349c182293" }, code.BadName},
		"a label":         {func(q ask) { q.Labels = map[string]string{"a b": "1"} }, code.Invalid},
		"a range":         {func(q ask) { q.FromAddresses = []string{"10.0.0.1/8"} }, code.Invalid},
		"no range":        {func(q ask) { q.FromAddresses = []string{"rack-a"} }, code.Invalid},
		"too long":        {func(q ask) { q.ValidFor = durationpb.New(31 * 24 * time.Hour) }, code.Invalid},
	} {
		q := &registryv1.CreateTokenRequest{Name: "a", Uses: 1, FromAddresses: []string{"10.0.0.0/8"}}
		c.change(q)
		if _, err := tokens.created(q); recordstest.CodeOf(err) != c.code {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
	}
}

func TestOnlyAServerWhoseCredentialsAreVoidIsInvitedAgain(t *testing.T) {
	t.Parallel()
	quarantined := &serverv1.Quarantined{Reason: "odd traffic"}
	for name, c := range map[string]struct {
		facts []proto.Message
		later time.Duration
		code  string
	}{
		"enrolled":                 {nil, 0, code.Exists},
		"revoked":                  {[]proto.Message{&serverv1.Revoked{}}, 0, ""},
		"expired":                  {nil, 2 * time.Hour, ""},
		"quarantined":              {[]proto.Message{quarantined}, 0, code.Exists},
		"quarantined, and expired": {[]proto.Message{quarantined}, 2 * time.Hour, code.ServerQuarantined},
	} {
		w := recordstest.New(t)
		desk := New(w.Records, Config{Signer: guests{}}, zerolog.Nop())
		id := recordstest.ServerID("one")
		for _, body := range append([]proto.Message{
			&serverv1.Invited{Name: "one", Cell: "main"},
			&serverv1.Enrolled{PublicKey: "key", ExpiresAt: timestamppb.New(w.At.Add(time.Hour))},
		}, c.facts...) {
			w.Fact(ledger.Server, id, body)
		}
		w.At = w.At.Add(c.later)
		r, err := desk.Invite(t.Context(), bus.Caller{Actor: "alice"}, &registryv1.InviteServerRequest{Name: "one"})
		if recordstest.CodeOf(err) != c.code || c.code == "" && (!r.Again || r.ServerId != id) {
			t.Errorf("%s: %v, %v; want %q", name, r, err, c.code)
		}
	}
}

package access_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

func TestAServerThatIsShutOutIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	for name, facts := range map[string][]proto.Message{
		"quarantined": {&serverv1.Quarantined{Reason: "mad"}},
		"revoked":     {&serverv1.Revoked{Reason: "stolen"}},
		"given up":    {&serverv1.Dead{Lost: true, Forced: true}},
		"cleaned up":  {&serverv1.Dead{}, &serverv1.Uninstalled{Via: "ssh"}},
		"forgotten":   {&serverv1.Dead{}, &serverv1.Forgotten{}},
		"enrolled again with another key": {
			&serverv1.Revoked{}, &serverv1.Reinvited{}, &serverv1.Enrolled{PublicKey: newKey(t)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, bus: w.bus, registry: w.registry, admin: w.admin}
			l, other := w.server(), w.server()
			c, untouched := w.connect(l), w.connect(other)
			w.record(l.name, facts...)
			w.shutOut(c, l)
			select {
			case <-untouched.gone:
				t.Error("another server's connection ended, too")
			default:
			}
		})
	}
}

func newKey(t *testing.T) string {
	t.Helper()
	public, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestAReleasedServerIsLetInAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	l := w.server()
	c := w.connect(l)
	w.record(l.name, &serverv1.Quarantined{Reason: "mad"})
	w.shutOut(c, l)
	w.record(l.name, &serverv1.Released{Reason: "well again"})
	polltest.Eventually(t, "it is let in", func() bool { return w.letIn(l) })
}

func TestAUsedInvitationIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	signer, err := trust.OpenSigner(w.bus.Authority.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	l := login{name: ident.New()}
	expires := time.Now().Add(time.Hour)
	guest, err := signer.Guest(l.name, "main", expires)
	if err != nil {
		t.Fatal(err)
	}
	l.jwt, l.seed, l.public = guest.JWT, guest.Seed, guest.PublicKey
	w.record(l.name, &serverv1.Invited{
		Name: "guest", Cell: "main", GuestKey: l.public, ExpiresAt: timestamppb.New(expires),
	})
	c := w.connect(l)
	f := &serverv1.Enrolled{PublicKey: newKey(t), ExpiresAt: timestamppb.New(expires)}
	w.recordAt(time.Now().Add(-server.EnrolGrace), l.name, f)
	w.shutOut(c, l)
}

// The bus may have stored the last report of an executor that waits for the answer.
func TestAnExecutorThatRemovedItselfIsCutOffAfterAGrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	waits, ended := w.server(), w.server()
	w.record(ended.name, &serverv1.Dead{})
	c := w.connect(ended)
	w.record(waits.name, &serverv1.Dead{}, &serverv1.Uninstalled{})
	w.recordAt(time.Now().Add(-server.ReceiptGrace), ended.name, &serverv1.Uninstalled{})
	w.shutOut(c, ended)
	if !w.letIn(waits) {
		t.Error("an executor is not let in a moment after its last report")
	}
}

func TestARevokedUserIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	l, other := w.user("ann", userv1.Role_ROLE_OPERATOR), w.user("bob", userv1.Role_ROLE_VIEWER)
	c := w.connect(l)
	r := must[*accessv1.RevokeUserResponse](w, w.admin, "RevokeUser", &accessv1.RevokeUserRequest{Name: "ann"})
	if !r.ShutOut || r.User.State != userv1.State_STATE_REVOKED {
		t.Errorf("revoked: %v", r)
	}
	w.shutOut(c, l)
	if !w.letIn(other) {
		t.Error("another user is not let in")
	}
	if again := w.user("ann", userv1.Role_ROLE_VIEWER); !w.letIn(again) || w.letIn(l) {
		t.Error("want the new key of a revoked user let in, and the old one not")
	}
}

// A bus that lost its directory of accounts restarts with those of the authority.
func TestABusThatLostItsAccountsGetsThemAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	l := w.server()
	w.record(l.name, &serverv1.Quarantined{})
	polltest.Eventually(t, "it is refused", func() bool { return !w.letIn(l) })
	w.bus.ForgetRevocations(t)
	polltest.Eventually(t, "it is refused again", func() bool { return !w.letIn(l) })
}

func TestTwoProcessesAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	var all []login
	for range 5 {
		l := w.server()
		all = append(all, l)
		c := w.connect(l)
		w.record(l.name, &serverv1.Quarantined{})
		w.shutOut(c, l)
	}
	w.record(all[0].name, &serverv1.Released{})
	polltest.Eventually(t, "the released one is let in", func() bool { return w.letIn(all[0]) })
	for _, l := range all[1:] {
		if w.letIn(l) {
			t.Errorf("%s is let in", l.name)
		}
	}
}

// The JWT of an account with as many revoked keys as there may be fits into one message of the bus.
func TestTheMostRevokedKeysReachTheBus(t *testing.T) {
	t.Parallel()
	b := bustest.StartGuarded(t)
	w := &world{T: t, bus: b}
	system := bus.NewSystem(b.Service(t, topology.UserAccessSystem))
	issuer, err := trust.OpenIssuer(b.Dir())
	if err != nil {
		t.Fatal(err)
	}
	l := login{name: "web"}
	l.jwt, l.seed = b.ServerUser(t, l.name, "main")
	c := w.connect(l)
	keys := []string{publicOf(l.seed)}
	for len(keys) < trust.MaxRevoked {
		keys = append(keys, newKey(t))
	}
	begun := time.Now()
	token, err := issuer.Revoke(topology.AccountNodes, keys)
	if err != nil {
		t.Fatal(err)
	}
	signed := time.Since(begun)
	if err := system.UpdateAccount(t.Context(), token, 1); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys, %d KiB: signed in %v, pushed in %v", len(keys), len(token)>>10, signed, time.Since(begun)-signed)
	w.shutOut(c, l)
	if have, err := system.AccountJWTs(t.Context(), issuer.AccountKey(topology.AccountNodes), 1); err != nil ||
		!trust.SameAccount(have[0], token) {
		t.Errorf("the bus has another account (%v)", err)
	}
}

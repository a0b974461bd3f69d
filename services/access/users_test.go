package access_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

const viewer = userv1.Role_ROLE_VIEWER

func TestWrongRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	taken := w.user("ann", viewer)
	create := func(change func(*accessv1.CreateUserRequest)) func() error {
		return func() error {
			q := &accessv1.CreateUserRequest{Name: "new", Role: viewer, PublicKey: newKey(t)}
			change(q)
			_, err := call[*accessv1.CreateUserResponse](w, w.admin, "CreateUser", q)
			return err
		}
	}
	type c = accessv1.CreateUserRequest
	for name, test := range map[string]struct {
		code string
		do   func() error
	}{
		"no name":              {"BAD_NAME", create(func(q *c) { q.Name = "" })},
		"a wildcard":           {"BAD_NAME", create(func(q *c) { q.Name = "*" })},
		"two tokens":           {"BAD_NAME", create(func(q *c) { q.Name = "a.b" })},
		"a service's name":     {"BAD_NAME", create(func(q *c) { q.Name = "task-dispatcher" })},
		"its own name":         {"BAD_NAME", create(func(q *c) { q.Name = "access" })},
		"a system user's name": {"BAD_NAME", create(func(q *c) { q.Name = "access-system" })},
		"executor":             {"BAD_NAME", create(func(q *c) { q.Name = "executor" })},
		"no role":              {"INVALID", create(func(q *c) { q.Role = 0 })},
		"no key":               {"BAD_KEY", create(func(q *c) { q.PublicKey = "" })},
		"an account's key": {"BAD_KEY", create(func(q *c) {
			q.PublicKey = w.bus.Authority.Names[topology.AccountOps]
		})},
		"another's key":  {"BAD_KEY", create(func(q *c) { q.PublicKey = taken.public })},
		"a name in use":  {"EXISTS", create(func(q *c) { q.Name = "ann" })},
		"too long":       {"INVALID", create(func(q *c) { q.ValidFor = durationpb.New(401 * 24 * time.Hour) })},
		"too short":      {"INVALID", create(func(q *c) { q.ValidFor = durationpb.New(0) })},
		"an unknown one": {"NOT_FOUND", func() error { return w.revoke("zoe", "") }},
		"a long reason":  {"INVALID", func() error { return w.revoke("ann", strings.Repeat("x", 257)) }},
		"an odd reason":  {"INVALID", func() error { return w.revoke("ann", "a\x1b[2J") }},
		"another's key to renew": {"BAD_KEY", func() error {
			_, err := w.renew(w.admin, taken.public)
			return err
		}},
		"a wrong cursor": {"INVALID", func() error {
			_, err := call[*accessv1.ListUsersResponse](w, w.admin, "ListUsers",
				&accessv1.ListUsersRequest{Page: &apiv1.Page{Cursor: "A B"}})
			return err
		}},
	} {
		if err := test.do(); fault.RefusalOf(err).GetCode() != test.code {
			t.Errorf("%s: %v, want %s", name, err, test.code)
		}
	}
	for _, service := range append(topology.Users, "garrison", "*") {
		if _, err := w.bus.Authority.Person(service, topology.Viewer, "", time.Time{}); err == nil {
			t.Errorf("a person may be called %s", service)
		}
	}
}

func (w *world) revoke(name, reason string) error {
	_, err := call[*accessv1.RevokeUserResponse](w, w.admin, "RevokeUser",
		&accessv1.RevokeUserRequest{Name: name, Reason: reason})
	return err
}

func (w *world) renew(c *bus.Conn, public string) (*accessv1.RenewSelfResponse, error) {
	return call[*accessv1.RenewSelfResponse](w, c, "RenewSelf", &accessv1.RenewSelfRequest{PublicKey: public})
}

func (w *world) dial(l login) *bus.Conn { return w.dialDenied(l, nil) }

// dialDenied is dial with a function that gets what the bus denies: it answers nothing to a denied request.
func (w *world) dialDenied(l login, denied func(error)) *bus.Conn {
	w.Helper()
	c, err := bus.Dial(bus.Options{
		URL: w.bus.URL, Name: l.name, Denied: denied,
		Credentials: func() (string, []byte, error) { return l.jwt, l.seed, nil },
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	return c
}

// notify sends an error unless one waits already.
func notify(to chan<- error, err error) {
	select {
	case to <- err:
	default:
	}
}

func TestAUserRenewsItsOwnKeyOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ann, bob := w.user("ann", viewer), w.user("bob", userv1.Role_ROLE_ADMIN)
	c := w.dial(ann)
	if _, err := w.renew(c, bob.public); fault.RefusalOf(err).GetCode() != "BAD_KEY" {
		t.Errorf("another's key: %v, want BAD_KEY", err)
	}
	r, err := w.renew(c, ann.public)
	if err != nil {
		t.Fatal(err)
	}
	if r.BusCa != "the CA of the bus" {
		t.Errorf("the CA is %q; a person learns it with each renewal", r.BusCa)
	}
	next := ann
	next.jwt = r.Jwt
	if !w.letIn(next) || !w.letIn(ann) {
		t.Error("want both credentials valid after a renewal")
	}
	must[*accessv1.RevokeUserResponse](w, w.admin, "RevokeUser", &accessv1.RevokeUserRequest{Name: "ann"})
	if w.letIn(next) || w.letIn(ann) {
		t.Error("want neither valid after the revocation")
	}
	if _, err := w.renew(w.dial(bob), ann.public); fault.RefusalOf(err).GetCode() != "BAD_KEY" {
		t.Errorf("a revoked key: %v, want BAD_KEY", err)
	}
}

func TestOnlyAdminsCreateAndRevokeUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	denied := make(chan error, 1)
	c := w.dialDenied(w.user("ann", userv1.Role_ROLE_OPERATOR), func(err error) { notify(denied, err) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	revoked := make(chan error, 1)
	go func() {
		_, err := callIn[*accessv1.RevokeUserResponse](ctx, c, "RevokeUser", &accessv1.RevokeUserRequest{Name: "ann"})
		revoked <- err
	}()
	select {
	case <-denied:
		cancel()
		if err := <-revoked; err == nil {
			t.Error("an operator revoked a user")
		}
	case err := <-revoked:
		t.Errorf("the bus let an operator ask to revoke a user: %v", err)
	}
	users := must[*accessv1.ListUsersResponse](w, c, "ListUsers", &accessv1.ListUsersRequest{}).Users
	if len(users) != 2 {
		t.Errorf("users: %v, want ann and the first admin", users)
	}
}

// The first operator is made before the service runs, and becomes a user when it starts.
func TestTheFirstOperatorIsAUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	expires := time.Now().Add(time.Hour)
	first, err := w.bus.Authority.Person("operator", topology.Admin, w.bus.URL, expires)
	if err != nil {
		t.Fatal(err)
	}
	w.start()()
	w.start()
	l := login{name: "operator", jwt: first.JWT, seed: []byte(first.Seed), public: first.PublicKey()}
	c := w.dial(l)
	users := must[*accessv1.ListUsersResponse](w, c, "ListUsers", &accessv1.ListUsersRequest{}).Users
	if len(users) != 2 || users[0].Name != "operator" || users[0].Role != userv1.Role_ROLE_ADMIN ||
		len(users[0].Keys) != 1 || users[0].Keys[0].ExpiresAt.AsTime().Unix() != expires.Unix() {
		t.Errorf("users: %v", users)
	}
	if r, err := w.renew(c, first.PublicKey()); err != nil || trust.CheckPublicKey(first.PublicKey()) != nil {
		t.Errorf("renewed: %v, %v", r, err)
	}
	open := w.connect(l)
	must[*accessv1.RevokeUserResponse](w, w.admin, "RevokeUser", &accessv1.RevokeUserRequest{Name: "operator"})
	w.shutOut(open, l)
}

// The last admin is revoked by force only, and no longer the last one when there is another.
func TestTheLastAdminIsRevokedByForceOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	bob := w.user("bob", userv1.Role_ROLE_ADMIN)
	w.admin = w.dial(bob)
	if err := w.revoke("root", ""); err != nil {
		t.Fatal(err)
	}
	if err := w.revoke("bob", ""); fault.RefusalOf(err).GetCode() != "LAST_ADMIN" || !w.letIn(bob) {
		t.Errorf("without force: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { // the bus may end the connection before it passes on the answer
		_, _ = callIn[*accessv1.RevokeUserResponse](ctx, w.admin, "RevokeUser",
			&accessv1.RevokeUserRequest{Name: "bob", Force: true})
	}()
	polltest.Eventually(t, "bob is shut out", func() bool { return !w.letIn(bob) })
}

func TestTwoAdminsDoNotRevokeEachOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	ann, bob := w.user("ann", userv1.Role_ROLE_ADMIN), w.user("bob", userv1.Role_ROLE_ADMIN)
	w.admin = w.dial(ann)
	if err := w.revoke("root", ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var both sync.WaitGroup
	for name, by := range map[string]*bus.Conn{"bob": w.admin, "ann": w.dial(bob)} {
		both.Go(func() { // the bus may end the connection before it passes on the answer
			_, _ = callIn[*accessv1.RevokeUserResponse](ctx, by, "RevokeUser", &accessv1.RevokeUserRequest{Name: name})
		})
	}
	polltest.Eventually(t, "one of them is shut out", func() bool { return !w.letIn(ann) || !w.letIn(bob) })
	cancel()
	both.Wait()
	if w.letIn(ann) == w.letIn(bob) {
		t.Error("both admins are revoked")
	}
}

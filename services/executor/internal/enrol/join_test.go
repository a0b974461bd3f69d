package enrol_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/seal"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/enrol"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/removal"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// here is the server that joins.
const here = "0197b5a0-0000-7000-8000-000000000001"

// registry answers joins as the registry does: the first key is the server's.
type registry struct {
	t    *testing.T
	b    *bustest.Bus
	keys []string // as they were asked with
	void string   // a key that is no longer admitted
	down bool     // admits, but its answer is lost
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{t: t, b: bustest.StartEmpty(t)}
	stop, err := bus.Answer(r.b.Dial(t, "registry"), topology.EnrolSubjects, "registry", r.answer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return r
}

func (r *registry) answer(_ context.Context, _ string, q *registryv1.EnrolRequest) (*registryv1.EnrolResponse, error) {
	r.keys = append(r.keys, q.GetPublicKey())
	if r.down {
		return nil, fault.New(fault.Unavailable, "the answer was lost")
	}
	if q.GetPublicKey() == r.void {
		return nil, fault.Refuse(fault.Denied, &apiv1.Refusal{Component: "registry", Code: "USED_KEY"})
	}
	if r.void == "" && q.GetPublicKey() != r.keys[0] {
		return nil, fault.Refuse(fault.Denied,
			&apiv1.Refusal{Component: "registry", Code: "USED_TOKEN", Message: "another key used it"})
	}
	return &registryv1.EnrolResponse{UserJwt: "jwt of " + q.GetServerId()}, nil
}

func (r *registry) join(root, server string, imageKeys ...string) (string, error) {
	return r.joinWith("s", root, server, imageKeys...)
}

func (r *registry) joinWith(secret, root, server string, imageKeys ...string) (string, error) {
	_, seed, err := trust.NewUserKey()
	if err != nil {
		r.t.Fatal(err)
	}
	token := trust.Token{
		URL:      "nats://nowhere",
		ServerID: server,
		Cell:     "main",
		Secret:   secret,
		JWT:      "guest",
		Seed:     string(seed),
	}
	return enrol.Join(context.Background(), enrol.Invitation{
		Root:      root,
		Token:     token.String(),
		InProcess: r.b,
		ImageKeys: imageKeys,
		Log:       zerolog.Nop(),
	})
}

func TestAJoinKeepsKeyAndIdentityForTheOwnerOnly(t *testing.T) {
	t.Parallel()
	r, root := newRegistry(t), t.TempDir()
	if id, err := r.join(root, here); err != nil || id != here {
		t.Fatalf("joined as %q, %v", id, err)
	}
	for _, name := range []string{"key.seed", "identity.json"} {
		info, err := os.Stat(filepath.Join(root, "executor", name))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := r.join(root, here); err != nil || len(r.keys) != 1 {
		t.Errorf("joining again: %v, asked %d times", err, len(r.keys))
	}
}

func TestAJoinWhoseAnswerWasLostIsRepeatedWithTheSameKey(t *testing.T) {
	t.Parallel()
	r, root := newRegistry(t), t.TempDir()
	r.down = true
	if _, err := r.join(root, here); err == nil {
		t.Fatal("it joined")
	}
	r.down = false
	if _, err := r.join(root, here); err != nil || r.keys[0] != r.keys[1] {
		t.Errorf("again: %v, with the same key: %v", err, r.keys[0] == r.keys[1])
	}
}

func key(t *testing.T, root layout.Root) string {
	t.Helper()
	public, err := identity.PublicKey(root)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestAVoidKeyIsReplacedWhenTheIdentityIsLost(t *testing.T) {
	t.Parallel()
	r, root := newRegistry(t), t.TempDir()
	if _, err := r.join(root, here); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "executor", "identity.json")); err != nil {
		t.Fatal(err)
	}
	r.void = r.keys[0]
	if _, err := r.joinWith("later", root, here); err != nil || len(r.keys) != 3 || r.keys[2] == r.void {
		t.Errorf("%v, asked with %v", err, r.keys)
	}
}

func TestALaterTokenJoinsTheServerAgainWithAnotherKey(t *testing.T) {
	t.Parallel()
	r, root := newRegistry(t), t.TempDir()
	if _, err := r.join(root, here); err != nil {
		t.Fatal(err)
	}
	r.void = r.keys[0]
	if _, err := r.join(root, here); err != nil || len(r.keys) != 1 {
		t.Errorf("with the token that was used: %v, asked %d times", err, len(r.keys))
	}
	r.down = true
	if _, err := r.joinWith("later", root, here); err == nil {
		t.Error("it joined without an answer")
	}
	r.down = false
	for range 2 {
		if _, err := r.joinWith("later", root, here); err != nil {
			t.Fatal(err)
		}
	}
	place, err := layout.New(root)
	if err != nil {
		t.Fatal(err)
	}
	who, err := identity.Read(place)
	if err != nil || who.PublicKey != key(t, place) || who.PublicKey == r.void {
		t.Errorf("the identity is of %q, the key is %q: %v", who.PublicKey, key(t, place), err)
	}
	if want := []string{r.void, key(t, place), key(t, place)}; !slices.Equal(r.keys, want) {
		t.Errorf("asked with %v, want %v", r.keys, want)
	}
}

func TestARefusalReachesThePersonAndLeavesNothing(t *testing.T) {
	t.Parallel()
	r, dir := newRegistry(t), t.TempDir()
	r.keys = []string{"another"}
	for name, root := range map[string]string{"was there": dir, "was made": filepath.Join(dir, "opt", "garrison")} {
		_, err := r.join(root, here)
		if got := fault.RefusalOf(err).GetCode(); got != "USED_TOKEN" {
			t.Errorf("a root that %s: got %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("a root that %s: left behind: %v, %v", name, left, err)
		}
	}
}

func TestABusThatIsAwayLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := trust.Token{URL: "nats://127.0.0.1:1", ServerID: here, Cell: "main", Secret: "s", JWT: "guest"}
	_, err := enrol.Join(t.Context(),
		enrol.Invitation{Root: filepath.Join(dir, "root"), Token: token.String(), Log: zerolog.Nop()})
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A key that is named must not be passed over: not by a first join, nor by one of a server
// that joined before and has none. A file of keys that is there counts.
func TestAJoinKeepsTheKeysOfImagesThatItIsTold(t *testing.T) {
	t.Parallel()
	r, root, server := newRegistry(t), t.TempDir(), ident.New()
	var keys []string
	for range 2 {
		public, _, err := seal.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, public)
	}
	for n, c := range []struct {
		named []string
		want  []string
	}{{nil, nil}, {keys[:1], keys[:1]}, {keys[1:], keys[:1]}} {
		if _, err := r.join(root, server, c.named...); err != nil {
			t.Fatal(err)
		}
		data, _ := os.ReadFile(filepath.Join(root, "executor", "image-keys"))
		for _, key := range keys {
			if strings.Contains(string(data), key) != slices.Contains(c.want, key) {
				t.Errorf("join %d: the file says %q", n, data)
			}
		}
	}
}

func TestAServerThatJoinedAndNeverRanSaysSo(t *testing.T) {
	t.Parallel()
	r, root := newRegistry(t), t.TempDir()
	if _, err := status.Read(root); !fault.Is(err, fault.NotFound) {
		t.Errorf("before: %v", err)
	}
	if _, err := r.join(root, here); err != nil {
		t.Fatal(err)
	}
	s, err := status.Read(root)
	if err != nil || s.State != status.Joined || s.ServerID != here || s.Cell != "main" ||
		s.Healthy(time.Now()) == nil {
		t.Errorf("status %+v, %v", s, err)
	}
	var out strings.Builder
	if err := s.Print(&out, time.Now()); err != nil || !strings.Contains(out.String(), "joined; not run yet") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestARootOfAnotherServerIsRefused(t *testing.T) {
	t.Parallel()
	r, root := newRegistry(t), t.TempDir()
	if _, err := r.join(root, here); err != nil {
		t.Fatal(err)
	}
	_, err := r.join(root, "0197b5a0-0000-7000-8000-000000000002")
	if fault.RefusalOf(err).GetCode() != "OTHER_SERVER" {
		t.Errorf("got %v", err)
	}
}

// decommissioned writes into a root what an uninstall leaves in a container: the mark of a server.
func decommissioned(t *testing.T, root layout.Root, server string) {
	t.Helper()
	authority, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.OpenSigner(authority.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	dead, err := signer.Tombstone(server, "main", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	mark, err := removal.NewMark(identity.Identity{
		ServerID: server, Cell: "main", PublicKey: "UKEY", Ownership: identity.Manual,
		TombstoneKey: signer.TombstoneKey(),
	}, dead)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(mark)
	if err == nil {
		err = os.Mkdir(root.Home(), 0o700)
	}
	if err == nil {
		err = os.WriteFile(root.Tombstone(), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAContainerThatWasDecommissionedJoinsWithAnothersTokenOnly(t *testing.T) {
	t.Parallel()
	r, root, gone := newRegistry(t), layout.Root(t.TempDir()), ident.New()
	decommissioned(t, root, gone)
	if id, err := r.join(string(root), gone); err != nil || id != gone || len(r.keys) > 0 {
		t.Errorf("its own token: %q, %v, asked with %v", id, err, r.keys)
	}
	if _, err := os.Stat(root.Tombstone()); err != nil {
		t.Errorf("its mark: %v", err)
	}
	if id, err := r.join(string(root), here); err != nil || id != here {
		t.Errorf("another's token: %q, %v", id, err)
	}
	left, _ := filepath.Glob(string(root) + "/*/*")
	if slices.ContainsFunc(left, func(p string) bool { return filepath.Base(p) == "tombstone.json" }) {
		t.Errorf("the next server finds %v", left)
	}
}

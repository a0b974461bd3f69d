package executor_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor"
)

// registry answers joins as the registry does: the first key is the server's.
type registry struct {
	t    *testing.T
	b    *bustest.Bus
	keys []string // as they were asked with
	down bool     // admits, but its answer is lost
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{t: t, b: bustest.StartEmpty(t)}
	stop, err := bus.Answer(r.b.Dial(t, "registry"), "garrison.enrol.*.*", "registry", r.answer)
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
	if q.GetPublicKey() != r.keys[0] {
		return nil, fault.Refuse(fault.Denied, &apiv1.Refusal{Component: "registry", Code: "USED_TOKEN", Message: "another key used it"})
	}
	return &registryv1.EnrolResponse{UserJwt: "jwt of " + q.GetServerId()}, nil
}

func (r *registry) join(root, server string) (string, error) {
	_, seed, err := trust.NewUserKey()
	if err != nil {
		r.t.Fatal(err)
	}
	token := trust.Token{URL: "nats://nowhere", ServerID: server, Cell: "main", Secret: "s", JWT: "guest", Seed: string(seed)}
	return executor.Join(context.Background(), executor.Invitation{Root: root, Token: token.String(), InProcess: r.b, Log: zerolog.Nop()})
}

func TestAJoinKeepsKeyAndIdentityForTheOwnerOnly(t *testing.T) {
	r, root := newRegistry(t), t.TempDir()
	if id, err := r.join(root, here.Server); err != nil || id != here.Server {
		t.Fatalf("joined as %q, %v", id, err)
	}
	for _, name := range []string{"key.seed", "identity.json"} {
		info, err := os.Stat(filepath.Join(root, "executor", name))
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := r.join(root, here.Server); err != nil || len(r.keys) != 1 {
		t.Errorf("joining again: %v, asked %d times", err, len(r.keys))
	}
}

func TestAJoinWhoseAnswerWasLostIsRepeatedWithTheSameKey(t *testing.T) {
	r, root := newRegistry(t), t.TempDir()
	r.down = true
	if _, err := r.join(root, here.Server); err == nil {
		t.Fatal("it joined")
	}
	r.down = false
	if _, err := r.join(root, here.Server); err != nil || r.keys[0] != r.keys[1] {
		t.Errorf("again: %v, with the same key: %v", err, r.keys[0] == r.keys[1])
	}
}

func TestARefusalReachesThePersonAndLeavesNothing(t *testing.T) {
	r, root := newRegistry(t), t.TempDir()
	r.keys = []string{"another"}
	_, err := r.join(root, here.Server)
	if got := fault.RefusalOf(err).GetCode(); got != "USED_TOKEN" {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestARootOfAnotherServerIsRefused(t *testing.T) {
	r, root := newRegistry(t), t.TempDir()
	if _, err := r.join(root, here.Server); err != nil {
		t.Fatal(err)
	}
	_, err := r.join(root, "0197b5a0-0000-7000-8000-000000000002")
	if fault.RefusalOf(err).GetCode() != "OTHER_SERVER" {
		t.Errorf("got %v", err)
	}
}

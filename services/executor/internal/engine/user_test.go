package engine

import (
	"os"
	"os/user"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// An agent that is not root says READY=1 as any other does, also when the socket is in a
// directory that an earlier version, which was root, had to itself.
func TestAnAgentOfAnotherUserSaysThatItIsReady(t *testing.T) {
	t.Parallel()
	if _, err := user.Lookup("daemon"); err != nil || os.Geteuid() != 0 {
		t.Skip("only root may become another user")
	}
	b := newBench(t)
	b.passable()
	r := b.run()
	as := func(name string) func(*imagev1.Manifest) {
		return func(m *imagev1.Manifest) { m.Run.Sandbox = &imagev1.Sandbox{User: name} }
	}
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready", as("")))), taskv1.State_STATE_SUCCEEDED)
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "ready", as("daemon")))), taskv1.State_STATE_SUCCEEDED)
	if info, err := os.Stat(b.root.Run("cn-agent")); err != nil || info.Mode().Perm()&0o066 != 0 {
		t.Errorf("others see what is beside the socket: %v %v", info, err)
	}
}

package executor_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// Started with a key that cannot be read, an executor keeps its agents and waits for it.
func TestAnExecutorWithADamagedKeyKeepsItsAgents(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(h *host, key []byte){
		"empty":       func(h *host, _ []byte) { h.write(h.root.Key(), nil) },
		"cut":         func(h *host, key []byte) { h.write(h.root.Key(), key[:len(key)/2]) },
		"gone":        func(h *host, _ []byte) { _ = os.Remove(h.root.Key()) },
		"a bad seed":  func(h *host, _ []byte) { h.write(h.root.Key(), []byte(`{"public":"U","seed":"SU"}`)) },
		"one flipped": func(h *host, key []byte) { key[len(key)-30] ^= 1; h.write(h.root.Key(), key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, bustest.StartGuarded(t), filepath.Join(t.TempDir(), "root"), identity.Manual)
			_, stop := h.run(h.config())
			pid := h.daemon()
			stop()
			key, err := os.ReadFile(h.root.Key())
			if err != nil {
				t.Fatal(err)
			}
			spoil(h, append([]byte(nil), key...))
			c := h.config()
			c.StopAgents = true
			h.run(c)
			s := h.state(status.Suspended, "IDENTITY_UNREADABLE")
			if s.Healthy(time.Now()) == nil || s.Reason == "" {
				t.Errorf("status %+v", s)
			}
			h.eventually("the agent is taken over", func() bool { return h.pid() == pid })
			h.healed(pid)
			h.write(h.root.Key(), key)
			h.state(status.Running, "")
		})
	}
}

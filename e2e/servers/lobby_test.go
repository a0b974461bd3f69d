package servers_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

var fingerprintOf = regexp.MustCompile(`its fingerprint is (\S+)`)

// waiting returns an error unless a machine with a fingerprint, and no other one, is in the lobby.
func (w *world) waiting(fingerprint string) error {
	list := w.OK("server", "list", "--lobby", "-o", "name")
	if strings.TrimSpace(list) != fingerprint {
		return fmt.Errorf("in the lobby are %q", list)
	}
	return nil
}

// A machine without a token waits through restarts of its executor and of the control plane, and is let in by what it
// shows of its key. Its environment, a rule and its approver label it and choose its agents.
func TestAMachineWithoutATokenIsLetInByItsFingerprint(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Lobby: true})}
	w.OK("env", "create", "prod")
	w.OK("env", "default", "prod", "beacon@1.0.0", "--yes")
	w.OK("label-rule", "set", "penguins", "--when", "os=linux", "--label", "family=penguin")
	s, err := w.Stranger("stranger")
	if err != nil {
		t.Fatal(err)
	}
	scenario.Must(t, s.Executor.Start())
	fingerprint := ""
	w.Eventually("the machine shows its fingerprint", func() error {
		found := fingerprintOf.FindStringSubmatch(s.Executor.Log())
		if found == nil {
			return errors.New("not yet")
		}
		fingerprint = found[1]
		return nil
	})
	w.Eventually("it waits", func() error { return w.waiting(fingerprint) })
	scenario.Must(t, errors.Join(s.Executor.Kill(), w.Garrisond.Kill(), w.Start(t.Context()), s.Executor.Start()))
	w.Eventually("it waits again", func() error { return w.waiting(fingerprint) })

	w.Fails(1, "NOT_FOUND", "server", "accept", "AAAA-AAAA", "--yes")
	w.OK("server", "accept", fingerprint, "--name", "stranger", "--env", "prod",
		"--label", "port="+strconv.Itoa(s.Port), "--yes")
	w.Servers = []*rig.Server{s}
	w.Converges("1.0.0")
	if left := w.OK("server", "list", "--lobby", "-o", "name"); left != "" {
		t.Errorf("in the lobby are still %q", left)
	}
	w.Eventually("the rule labels it", func() error {
		var server struct {
			Labels     map[string]string
			RuleLabels map[string]struct{ Rule string }
		}
		if err := json.Unmarshal([]byte(w.OK("server", "show", "stranger", "-o", "json")), &server); err != nil {
			return err
		}
		if server.Labels["family"] != "penguin" || server.RuleLabels["family"].Rule != "penguins" {
			return fmt.Errorf("its labels are %v", server)
		}
		return nil
	})
	files := w.OK("export")
	rules, servers, _ := strings.Cut(files, "\nservers:\n")
	if !strings.Contains(rules, "family: penguin") {
		t.Errorf("files do not declare the rule:\n%s", files)
	}
	if strings.Contains(servers, "penguin") || !strings.Contains(servers, "port:") {
		t.Errorf("files declare of servers the labels of operators, and none of rules:\n%s", files)
	}
	w.Holds()
	w.EqualViews()
}

package operator

import (
	"context"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/printed"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// The first guesses of people who know kubectl, nomad, helm, systemctl, ansible and gh.
func TestAFirstGuessNamesTheCommandThatItMeans(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"get pods":                         "garrison instance list",
		"get nodes":                        "garrison server list",
		"get node web-1":                   "garrison server show",
		"get agents":                       "garrison agent list",
		"get events":                       "garrison events",
		"get contexts":                     "garrison context list",
		"describe server web-1":            "garrison server show",
		"describe web-1":                   "garrison explain",
		"delete agent beacon":              "garrison agent delete",
		"delete node web-1":                "garrison server decommission",
		"delete beacon":                    "garrison remove",
		"edit agent beacon":                "garrison agent update",
		"create namespace prod":            "garrison env create",
		"label node web-1 a=b":             "garrison server set",
		"cordon web-1":                     "garrison server quarantine",
		"config get-contexts":              "garrison context list",
		"config use-context site":          "garrison context use",
		"config current-context":           "garrison context list",
		"cluster-info":                     "garrison bus",
		"node status":                      "garrison server show",
		"node drain web-1":                 "garrison server quarantine",
		"job stop 1a2b3c4d":                "garrison cancel",
		"auth login":                       "garrison context add",
		"auth status":                      "garrison whoami",
		"rollout status 1a2b3c4d":          "garrison rollout show",
		"rollout history":                  "garrison rollout list",
		"server edit web-1":                "garrison server set",
		"server drain web-1":               "garrison server quarantine",
		"server upgrade web-1":             "garrison up",
		"image push beacon.gimg":           "garrison image import",
		"push beacon.gimg":                 "garrison image import",
		"journalctl -u beacon":             "garrison logs",
		"show web-1":                       "garrison explain",
		"enable beacon":                    "garrison install",
		"ping all":                         "garrison server list",
		"playbook site.yaml":               "garrison apply",
		"instal beacon":                    "garrison install",
		"upp beacon":                       "garrison up",
		"server list -l a=b":               "--on SELECTOR",
		"server list --json":               "-o json",
		"server list --wide":               "-o wide",
		"server list --sort-by name":       "--sort",
		"server list --no-color":           "--color never",
		"server list -A":                   "--limit all",
		"server list --state online":       "--presence",
		"logs web-1 beacon --tail 5":       "--lines",
		"events --tail 5":                  "--limit",
		"install beacon --host web-1":      "--on SELECTOR",
		"install beacon --version 1.0.0":   "AGENT@VERSION",
		"install beacon --on all --check":  "--dry-run",
		"up beacon --on all --force":       "--yes",
		"up beacon --on all --reason x":    "--message",
		"hold beacon --on all --comment x": "--message",
	} {
		if said := refused(t, line); !strings.Contains(said, "Nearest: "+want+". Try: ") {
			t.Errorf("%s: have %q, want the nearest %q", line, said, want)
		}
	}
}

// A word that resembles no command by more than chance names none.
func TestAWordThatMeansNothingNamesNoCommand(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"zebra", "pr list", "exec web-1 ls", "server ssh web-1", "ansible all"} {
		if said := refused(t, line); strings.Contains(said, "Nearest") {
			t.Errorf("%s: %q", line, said)
		}
	}
}

func TestAnUnexpectedArgumentNamesTheCommandLineThatHasAPlaceForIt(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"server list web-1":     "garrison server show web-1",
		"status web-1":          "garrison explain web-1",
		"install beacon web-1":  "garrison install beacon --on web-1",
		"install beacon 1.0.0":  "garrison install beacon@1.0.0",
		"apply fleet.yaml":      "garrison apply -f fleet.yaml",
		"server show web-1 web": "garrison server show --help",
	} {
		if said := refused(t, line); !strings.HasSuffix(said, ". Try: "+want+"\n") {
			t.Errorf("%s: have %q, want to try %q", line, said, want)
		}
	}
}

// Every word of other tools stands for a command, so that a renamed one is found here.
func TestEveryOtherWordStandsForACommand(t *testing.T) {
	t.Parallel()
	root := newRoot(cli.NewEnv(nil, nil, nil, nil))
	for words, path := range cli.OtherWords() {
		if found, _, err := root.Find(strings.Fields(path)); err != nil || found == root {
			t.Errorf("%s: there is no command %s", words, path)
		}
	}
}

// Who types what a command was called finds what took its place: a command line, which is no alias.
func TestARenamedCommandNamesWhatTookItsPlace(t *testing.T) {
	t.Parallel()
	for old, line := range cli.Renamed() {
		if said := refused(t, old); !strings.HasSuffix(said, ". Try: garrison "+line+"\n") {
			t.Errorf("garrison %s says %q, want garrison %s", old, said, line)
		}
		for _, c := range printed.Commands("garrison", "garrison "+line, false) {
			if err := mistaken(c); err != nil {
				t.Errorf("garrison %s leads to garrison %s: %v", old, line, err)
			}
		}
	}
}

func TestARenamedCommandKeepsItsArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"rollout undo 1a2b3c4d":          "undo 1a2b3c4d",
		"rollout undo 1a2b3c4d --yes":    "undo 1a2b3c4d",
		"auth can-i up":                  "whoami --can up",
		"auth can-i restart instance":    "whoami --can 'restart instance'",
		"external want beacon 1.0.0":     "agent update beacon --want 1.0.0",
		"external want beacon":           "agent update beacon --want VERSION",
		"env default remove prod beacon": "env default prod beacon --none",
		"image demote beacon@1.0.0":      "channel remove beacon@1.0.0",
		"env fetch prod":                 "env update prod --fetch WHEN",
		"task wait 1a2b3c4d 2b3c4d5e":    "watch 1a2b3c4d 2b3c4d5e",
		"wait 1a2b3c4d":                  "watch 1a2b3c4d",
		"intent withdraw 1a2b3c4d":       "cancel 1a2b3c4d",
		"rollout step 1a2b3c4d -m lunch": "rollout resume 1a2b3c4d --until-wave next",
	} {
		if said := refused(t, line); !strings.HasSuffix(said, ". Try: garrison "+want+"\n") {
			t.Errorf("garrison %s says %q, want garrison %s", line, said, want)
		}
	}
	var said strings.Builder
	s := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
	if code := run(context.Background(), s, []string{"rollout", "undo", "1a2b3c4d", "--help"}); code != cli.ExitOK ||
		!strings.Contains(said.String(), "garrison rollout undo is gone. Try: garrison undo 1a2b3c4d\n") ||
		!strings.Contains(said.String(), "Usage:\n  garrison undo ") {
		t.Errorf("the help of what is gone: exit code %d, %s", code, said.String())
	}
}

func refused(t *testing.T, line string) string {
	t.Helper()
	var said strings.Builder
	s := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
	if code := run(context.Background(), s, strings.Fields(line)); code != cli.ExitUsage {
		t.Errorf("%s: exit code %d, want %d", line, code, cli.ExitUsage)
	}
	return said.String()
}

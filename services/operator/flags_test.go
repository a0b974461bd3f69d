package operator

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// freeText are the flags whose texts mean what they say, or are read where they are used.
var freeText = []string{
	"description",
	"reason",
	"token-file",
	"on",
	"not",
	"when",
	"where",
	"all-matching",
	"sort",
	"output",
	"version",
	"os",
	"arch",
}

// A number, a time, a name or a word that pflag reads by itself would let nonsense in.
func TestEveryFlagRefusesWhatMeansNothing(t *testing.T) {
	t.Parallel()
	n := 0
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if kind != (cli.FlagValue{}).Type() && kind != "bool" && !slices.Contains(freeText, f.Name) {
				t.Errorf("%s --%s is a %s that nothing checks", c.CommandPath(), f.Name, kind)
			}
			n++
		})
	})
	if n < 50 {
		t.Errorf("%d flags were looked at", n)
	}
}

// Help shows "value" for a flag whose text names none, and "(default 0s)" for one whose text says what it is without.
func TestTheHelpOfEveryFlagNamesItsValue(t *testing.T) {
	t.Parallel()
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); name == "value" {
				t.Errorf("%s --%s names no value: %s", c.CommandPath(), f.Name, f.Usage)
			}
			if f.DefValue == "0s" {
				t.Errorf("%s --%s is 0s by default: %s", c.CommandPath(), f.Name, f.Usage)
			}
		})
	})
}

func TestEveryCommandHasAnExampleAndAShortHelpThatIsASentence(t *testing.T) {
	t.Parallel()
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		if c.HasSubCommands() || c.Name() == "help" || c.IsAdditionalHelpTopicCommand() {
			return
		}
		if !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example of itself: %q", c.CommandPath(), c.Example)
		}
		if !strings.HasSuffix(c.Short, ".") {
			t.Errorf("the help of %s is no sentence: %q", c.CommandPath(), c.Short)
		}
	})
}

func TestEveryCommandThatChangesSomethingHasTheFlagsOfChanges(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "garrison ")
		seen[path], seen[c.Name()] = true, true
		group := c.HasSubCommands() && c.Args == nil
		about := c.Name() == "help" || c.IsAdditionalHelpTopicCommand()
		if !c.HasParent() || group || reads[path] || reads[c.Name()] || about {
			return
		}
		for _, flag := range []string{"yes", "dry-run", "message"} {
			if c.Flags().Lookup(flag) == nil {
				t.Errorf("garrison %s has no --%s", path, flag)
			}
		}
	})
	for path := range reads {
		if !seen[path] {
			t.Errorf("no command is called %s", path)
		}
	}
}

func everyCommand(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, f)
	}
}

var wrongValues = map[string]string{
	"install a --on all --timeout -3s":               `--timeout: "-3s" is not a positive duration such as 90s`,
	"up a --on all --timeout 0":                      "positive duration",
	"configure a --on all --timeout soon":            "positive duration",
	"remove a --on all --timeout 3":                  "positive duration",
	"watch x --timeout -1h":                          "positive duration",
	"server enroll a --valid -1h":                    "positive duration",
	"server enroll a --valid 721h":                   "the maximum is 30d",
	"server list --limit -1":                         `--limit: "-1" is not a whole number from 1, or all`,
	"server list --limit 0":                          "from 1",
	"task list --limit 1.5":                          "from 1",
	"events --limit 99999999999":                     "from 1",
	"agent create a --tier -1":                       "from 0 to 4294967295",
	"agent create a --needs b,,c":                    "empty part",
	"agent create a --app X":                         "is not a name",
	"agent create a --kind nothing":                  "want daemon, oneshot",
	"agent create a --set level":                     "is not NAME=VALUE",
	"agent update a --unset 2":                       "is not the name of a value",
	"env create a --channel ''":                      "is not a name",
	"server list --env Prod":                         "is not a name",
	"server list --label =a":                         "is not LABEL=VALUE",
	"server list --life undead":                      "want invited, alive",
	"server set a --env a.b":                         "is not a name",
	"task list --server ''":                          "is not a host name",
	"task list --intent x":                           "is not the id of an intent",
	"task list --state ''":                           "want queued, assigned",
	"instance list --image x":                        "is not the id of an image, nor the beginning of one",
	"events --since -10m":                            "a duration such as 10m",
	"events --since someday":                         "2026-01-31T12:00:00Z",
	"hold a --on all --until -2d":                    "a duration such as 10m or 1d",
	"hold a --on all -m ''":                          "the message must not be empty",
	"block web@1.0.0":                                "say why. Try: garrison block web@1.0.0 -m WHY",
	"server list --trouble NOPE":                     "there is no code \"NOPE\"",
	"server list --trouble held":                     "Nearest: HELD",
	"logs beacon":                                    "Try: garrison logs beacon --on all",
	"unblock 1a2b3c4d":                               "say why",
	"block web --image x -m y":                       "is not the id of an image",
	"unhold --id x":                                  "is not the id of a hold",
	"events --cursor 0":                              "whole number from 1",
	"events --noun planet":                           "want application, environment",
	"events --id ''":                                 "the id must not be empty",
	"server list --cursor ''":                        "the cursor must not be empty",
	"up --all --exclude A --on all":                  "is not a name",
	"install a --on web/1":                           "is not a host name",
	"install a --on web-*":                           "wildcards are not supported",
	"install a --on env=Prod":                        "is not a name",
	"configure a --on all --if-revision -1":          "is not a whole number from 0",
	"app update a --if-revision x":                   "is not a whole number from 0",
	"app create a --from ''":                         "the file must not be empty",
	"configure a --on all --set a=1 --set":           "needs an argument",
	"configure a --on all --set x":                   `"x" is not NAME=VALUE. Try: --set x=VALUE`,
	"configure a --on all --set =x":                  "Try: --set NAME=VALUE",
	"configure a --on all --set-json x":              "Try: --set-json x=VALUE",
	"configure a --on all --set-secret x":            "Try: --set-secret NAME=@FILE",
	"server show ''":                                 "SERVER is empty. Try: garrison server show --help",
	"server list --columns ''":                       "the column must not be empty",
	"server list --columns name,,env":                "empty part",
	"server list --context ''":                       "the context must not be empty",
	"import ansible /proc":                           `/proc is a directory; name a file in it. Try: `,
	"import ansible /nosuch":                         "no file or directory /nosuch. Try: ",
	"configure a --on all --set a=1 --unset a":       `"a" is both set and unset`,
	"install a --on all --detach=perhaps":            "is not true or false",
	"install a --on all --detatch":                   "Nearest: --detach",
	"server list -o xml":                             "want table, wide, json",
	"status --sort state":                            "--sort does not apply: garrison status prints no table",
	"status --columns state":                         "--columns does not apply",
	"status -o name":                                 "-o name does not apply: garrison status lists nothing",
	"export --sort name":                             "--sort does not apply",
	"logs web-1 beacon --no-headers":                 "--no-headers does not apply",
	"logs web-1 beacon --since tomorrow":             `"tomorrow" is in the future`,
	"events --since 9999-01-01":                      `"9999-01-01" is in the future. Try: garrison events --help`,
	"intent list --since 9999-01-01":                 `"9999-01-01" is in the future`,
	"events --since 1d --until 2d":                   "--until is not after --since",
	"block beacon":                                   "say why",
	"completion":                                     "SHELL is missing (want bash, fish, powershell, zsh)",
	"completion tcsh":                                `unknown shell "tcsh" (want bash, fish, powershell, zsh)`,
	"man nosuch":                                     "unknown command garrison nosuch. Try: garrison --help",
	"man server lsit":                                "Nearest: garrison server list",
	"up beacon:1.1.0 --on web-1":                     "Try: beacon@1.1.0",
	"up --all --again --on all":                      "--again needs the agents",
	"image promote a@1.0.0 staging":                  "Try: garrison image promote a@1.0.0 --channel staging",
	"task show":                                      "Try: garrison task list",
	"hold":                                           "AGENT is missing",
	"export -o /dev/null":                            "/dev/null is not a regular file, and is not replaced",
	"export -o a.yaml --out b.yaml":                  "-o a.yaml and --out b.yaml name two files",
	"server list -o a.json":                          `"a.json" is not a format (want table, wide, json`,
	"image list beacon@1.0.0":                        "Try: garrison image show beacon@1.0.0",
	"image build . --out /dev/null":                  "/dev/null is not a regular file, and is not replaced",
	"export --out /dev/null":                         "/dev/null is not a regular file, and is not replaced",
	"server enroll a --token-file /none/a":           "there is no directory /none for /none/a. Try: mkdir -p /none",
	"server enroll a --token-file /proc/x":           "cannot write to directory /proc: ",
	"export -o json":                                 "Try: garrison export | yq -o json",
	"export --jq .agents":                            "--jq does not apply: the export is YAML",
	"instance report vm --complete --from /dev/null": "the report is empty, and every recorded instance would be gone",
	"export --out /proc/x":                           "cannot write to directory /proc: ",
	"token create a --uses 2 --token-file /none/a":   "there is no directory /none",
	"user create a --file /none/a":                   "there is no directory /none",
	"context add a /none":                            "no file or directory /none",
	"intent show 1a2B3c4d":                           "is not the id of an intent",
}

// Nothing is asked: the sessions have no bus to ask.
func TestAWrongValueIsAWrongCommandLineThatSaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for line, want := range wrongValues {
		t.Run(line, func(t *testing.T) {
			var said strings.Builder
			s := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
			words := strings.Fields(line)
			for i, w := range words {
				words[i] = strings.Trim(w, "'")
			}
			if code := run(context.Background(), s, words); code != cli.ExitUsage || !strings.Contains(said.String(),
				want) {
				t.Errorf("exit code %d, want %d and %q; it said:\n%s", code, cli.ExitUsage, want, &said)
			}
		})
	}
}

package config_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/config"
)

func TestTheCommandLineWinsOverTheEnvironment(t *testing.T) {
	// the last as an agent has it
	env := map[string]string{"GARRISON_LOG_LEVEL": "debug", "GARRISON_COUNT": "x", "GARRISON_VERSION": "1.2.3"}
	for name, c := range map[string]struct {
		args  []string
		level string
		says  string // on stderr, when refused
	}{
		"from the environment":       {[]string{"--count", "1"}, "debug", ""},
		"from the command line":      {[]string{"--count", "1", "--log-level", "warn"}, "warn", ""},
		"a bad variable":             {nil, "", "GARRISON_COUNT"},
		"an unexpected argument":     {[]string{"--count", "1", "stray"}, "", `unexpected argument "stray"`},
		"a flag that does not exist": {[]string{"--nope"}, "", "not defined: --nope (--help"},
		"a flag with a typing error": {[]string{"--log-levle"}, "", "--log-levle. Nearest: --log-level (--help"},
		"a value that is no number":  {[]string{"--count", "x"}, "", "for flag --count: parse error"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := flag.NewFlagSet("test", flag.ContinueOnError)
			level, _ := fs.String("log-level", "info", ""), fs.Int("count", 0, "")
			version := fs.Bool("version", false, "")
			var stderr bytes.Buffer
			err := config.Parse(fs, c.args, func(k string) string { return env[k] }, &stderr)
			if (err != nil) != (c.says != "") || !strings.Contains(stderr.String(), c.says) {
				t.Fatalf("error %v, says %q; want it to say %q", err, stderr.String(), c.says)
			}
			if *version {
				t.Error("the environment asks for the version")
			}
			if err == nil && *level != c.level {
				t.Errorf("level %q, want %q", *level, c.level)
			}
		})
	}
}

// The pages write two dashes, and so does the help.
func TestHelpWritesFlagsWithTwoDashes(t *testing.T) {
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.String("log-level", "info", "one of `LEVELS`")
	var stderr bytes.Buffer
	err := config.Parse(fs, []string{"--help"}, func(string) string { return "" }, &stderr)
	if !errors.Is(err, config.ErrHelp) || !strings.Contains(stderr.String(), "\n  --log-level LEVELS\n") {
		t.Errorf("have %v and\n%s", err, &stderr)
	}
}

func TestVersionIsAlsoACommand(t *testing.T) {
	command, rest, err := config.Command("test", []string{"version"}, io.Discard, "run", "health")
	if err != nil || command != "run" || !slices.Equal(rest, []string{"--version"}) {
		t.Errorf("have %s %q, %v", command, rest, err)
	}
}

func TestAskingForHelpIsNoError(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"help":       {[]string{"--help"}, 0},
		"nothing":    {nil, 0},
		"a bad flag": {[]string{"--nope"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			err := config.Parse(flag.NewFlagSet("test", flag.ContinueOnError), c.args,
				func(string) string { return "" }, &bytes.Buffer{})
			if code := config.ExitCode(err); code != c.code {
				t.Errorf("exit code %d after %v, want %d", code, err, c.code)
			}
		})
	}
	if code := config.ExitCode(errors.New("broken")); code != 1 {
		t.Errorf("exit code %d after any other error, want 1", code)
	}
}

func TestANameWithoutItsFlagIsAnsweredWithTheFlag(t *testing.T) {
	for args, want := range map[string]string{
		"stray":          ". Try: begin --name stray\n",
		"--name a stray": "shows them)\n",
	} {
		fs := flag.NewFlagSet("begin", flag.ContinueOnError)
		fs.String("name", "", "")
		var stderr bytes.Buffer
		err := config.Parse(fs, strings.Fields(args), func(string) string { return "" }, &stderr)
		if err == nil || !strings.HasSuffix(stderr.String(), want) {
			t.Errorf("%s: %v, %q; want it to end with %q", args, err, stderr.String(), want)
		}
	}
}

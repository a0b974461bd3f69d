package config_test

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/config"
)

// settings is one flag of each kind.
type settings struct {
	mode, level, at, bus, file, dir string
	count                           int
	bytes                           uint64
	every                           time.Duration
}

func (s *settings) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("prog run", flag.ContinueOnError)
	config.Checked(fs, &s.mode, "mode", "auto", "", config.OneOf("auto", "on", "off"))
	config.Checked(fs, &s.level, "log-level", "info", "", config.Level)
	config.Checked(fs, &s.at, "listen", "127.0.0.1:0", "", config.Address)
	config.Checked(fs, &s.bus, "bus", "", "", config.BusURL)
	config.Checked(fs, &s.file, "journal", "", "the `FILE`", config.File)
	config.Checked(fs, &s.dir, "root", "/var", "", config.Text)
	config.Checked(fs, &s.count, "count", 20, "", config.From(1))
	config.Checked(fs, &s.bytes, "bytes", 7, "", config.From[uint64](0))
	config.Checked(fs, &s.every, "every", 5*time.Second, "", config.Lasting(10*time.Millisecond))
	return fs
}

func TestAValueThatCannotBeMeantIsRefusedWithWhatIsAllowed(t *testing.T) {
	for value, says := range map[string]string{
		"--mode=foo":          "want auto, on or off",
		"--mode=":             "want auto, on or off",
		"--log-level=loud":    "want debug, info, warn or error",
		"--log-level=trace":   "want debug, info, warn or error",
		"--listen=foo":        "want HOST:PORT",
		"--listen=host:name":  "want HOST:PORT",
		"--listen=host:70000": "want HOST:PORT",
		"--bus=http://x":      "want nats://HOST:PORT",
		"--bus=nats://a,":     "want nats://HOST:PORT",
		"--journal=/nope":     "no such file",
		"--journal=/":         "not a regular file",
		"--root=":             "must not be empty",
		"--count=0":           "want a whole number from 1",
		"--count=1.5":         "want a whole number from 1",
		"--bytes=-1":          "want a whole number from 0",
		"--every=-5s":         "want a duration from 10ms",
		"--every=0":           "want a duration from 10ms",
		"--every=5":           "want a duration from 10ms",
	} {
		t.Run(value, func(t *testing.T) {
			name, text, _ := strings.Cut(strings.TrimPrefix(value, "--"), "=")
			for how, c := range map[string]struct {
				args []string
				env  map[string]string
			}{
				"command line": {[]string{value}, nil},
				"environment":  {nil, map[string]string{config.Variable(name): text}},
			} {
				if text == "" && c.env != nil {
					continue // an empty variable is unset
				}
				var s settings
				var stderr bytes.Buffer
				err := config.Parse(s.flags(), c.args, func(k string) string { return c.env[k] }, &stderr)
				if config.ExitCode(err) != 2 || !strings.Contains(stderr.String(), says) ||
					strings.Count(stderr.String(), "\n") != 1 {
					t.Errorf("%s: %v, says %q; want a line that says %q", how, err, stderr.String(), says)
				}
			}
		})
	}
}

func TestAValueThatCanBeMeantIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var s settings
	fs := s.flags()
	defaults := settings{
		mode: "auto", level: "info", at: "127.0.0.1:0", dir: "/var", count: 20, bytes: 7, every: 5 * time.Second,
	}
	if s != defaults {
		t.Errorf("the defaults are %+v", s)
	}
	var stderr bytes.Buffer
	err := config.Parse(fs, []string{
		"--mode", "off", "--log-level", "warn", "--listen", ":4222", "--bus", "nats://a:4222,b",
		"--journal", path, "--root", "here", "--count", "1", "--bytes", "0", "--every", "20ms",
	}, func(string) string { return "" }, &stderr)
	want := settings{
		mode:  "off",
		level: "warn",
		at:    ":4222",
		bus:   "nats://a:4222,b",
		file:  path,
		dir:   "here",
		count: 1,
		every: 20 * time.Millisecond,
	}
	if err != nil || s != want {
		t.Errorf("got %+v, want %+v: %v %s", s, want, err, stderr.String())
	}
}

func TestHelpShowsTheDefaults(t *testing.T) {
	var s settings
	var stderr bytes.Buffer
	if err := config.Parse(s.flags(), []string{"-h"}, func(string) string { return "" }, &stderr); !errors.Is(err,
		config.ErrHelp) {
		t.Fatal(err)
	}
	for _, want := range []string{"default auto", "default 20", "default 5s", "-journal FILE"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %s", want, stderr.String())
		}
	}
}

func TestACommandIsOneOfTheProgramsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		args    []string
		command string
		rest    int
		code    int
	}{
		"none":       {nil, "run", 0, 0},
		"a flag":     {[]string{"--data", "x"}, "run", 2, 0},
		"the second": {[]string{"view", "--at", "1"}, "view", 2, 0},
		"a stranger": {[]string{"dance"}, "", 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			command, rest, err := config.Command("prog", c.args, &stderr, "run", "view")
			if command != c.command || len(rest) != c.rest || config.ExitCode(err) != c.code ||
				(c.code != 0) != strings.Contains(stderr.String(), `no command "dance" (want run or view)`) {
				t.Errorf("%q %v %v, says %q", command, rest, err, stderr.String())
			}
		})
	}
}

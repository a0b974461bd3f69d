package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/busy"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/sysinfo"
)

// busyFlags are those of the commands about critical sections.
type busyFlags struct {
	name, reason string
	lasts, wait  time.Duration
	command      []string // of busy run
}

func sectionName(text string) (string, error) { return text, ident.CheckName("critical section", text) }

func sectionLasts(text string) (time.Duration, error) {
	d, err := config.Lasting(time.Second)(text)
	if err == nil && d > busy.Longest {
		err = fmt.Errorf("%s is the most", busy.Longest)
	}
	return d, err
}

func sectionReason(text string) (string, error) {
	if len(text) > busy.MaxReason {
		return "", fmt.Errorf("%d bytes; %d are the most", len(text), busy.MaxReason)
	}
	return config.Text(text)
}

func (f *flags) busyNamed() {
	config.Checked(f.FlagSet, &f.busy.name, "name", "", "the `NAME` of the critical section", sectionName)
}

func (f *flags) busyBegin() {
	f.busyNamed()
	config.Checked(f.FlagSet, &f.busy.lasts, "for", 10*time.Minute, "when it ends by itself", sectionLasts)
	config.Checked(f.FlagSet, &f.busy.wait, "wait", 2*time.Minute, "how long to wait for the end of a change that is "+
		"under way", config.Lasting(0))
	config.Checked(f.FlagSet, &f.busy.reason, "reason", "", "why, one `SENTENCE`", sectionReason)
}

// sections returns the critical sections below the root.
func (f *flags) sections() (busy.Sections, error) {
	root, err := layout.New(f.root)
	if err == nil && layout.Missing(root.Home()) {
		err = fmt.Errorf("no executor in %s: no server joined there", root)
	}
	return busy.Sections{Root: root, Boot: sysinfo.BootID()}, err
}

func (f *flags) beginBusy(ctx context.Context) error {
	if f.busy.name == "" {
		return config.Missing(f.FlagSet, "name")
	}
	x, err := f.begin(ctx, 0)
	if err == nil {
		fmt.Fprintf(stdout(), "%s\nto end it: executor busy end --name %s --root %s\n", x, x.Name, f.root)
	}
	return err
}

// begin begins a section, of a process unless pid is 0.
func (f *flags) begin(ctx context.Context, pid int) (busy.Section, error) {
	s, err := f.sections()
	if err != nil {
		return busy.Section{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.busy.wait)
	defer cancel()
	now := time.Now()
	x := busy.Section{Name: f.busy.name, Reason: f.busy.reason, Since: now, Until: now.Add(f.busy.lasts)}
	if pid > 0 && !x.Of(pid, s.Boot) {
		return x, fmt.Errorf("process %d cannot be read", pid)
	}
	return s.Begin(ctx, x)
}

func (f *flags) endBusy(context.Context) error {
	if f.busy.name == "" {
		return config.Missing(f.FlagSet, "name")
	}
	s, err := f.sections()
	if err != nil {
		return err
	}
	lasted, err := s.End(f.busy.name)
	if err == nil && !lasted {
		err = fmt.Errorf("no critical section %s lasts; executor busy list shows those that do", f.busy.name)
	}
	return err
}

func (f *flags) listBusy(context.Context) error {
	s, err := f.sections()
	if err != nil {
		return err
	}
	last, err := s.List(time.Now())
	if err != nil {
		return err
	}
	if f.output == "json" {
		return json.NewEncoder(stdout()).Encode(slices.Concat([]busy.Section{}, last))
	}
	for _, x := range last {
		fmt.Fprintln(stdout(), x)
	}
	return nil
}

// runBusy begins a section of this process, which then becomes the command: the section ends with it, however it ends.
func (f *flags) runBusy(ctx context.Context) error {
	if len(f.busy.command) == 0 {
		fmt.Fprintf(f.Output(), "%s: want a command behind --: executor busy run --for 10m -- COMMAND\n", f.Name())
		return config.ErrUsage
	}
	path, err := exec.LookPath(f.busy.command[0])
	if err != nil {
		return err
	}
	if f.busy.name == "" {
		f.busy.name = "run-" + strconv.Itoa(os.Getpid())
	}
	if _, err := f.begin(ctx, os.Getpid()); err != nil {
		return err
	}
	return fmt.Errorf("run %s: %w", path, unix.Exec(path, f.busy.command, os.Environ()))
}

// splitCommand takes a command behind -- from the arguments of busy run.
func (f *flags) splitCommand(command string, args []string) []string {
	n := slices.Index(args, "--")
	if command != runInSection || n < 0 {
		return args
	}
	f.busy.command = args[n+1:]
	return args[:n]
}

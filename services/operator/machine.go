package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// machine is where an executor's program is to be run, over ssh.
type machine struct {
	ssh     string // the command that logs in, with its options
	to      string // USER@HOST
	root    string // of the executor
	program string // the executor's
	upload  string // a file here that is sent there instead, or empty
	sudo    bool
}

// aLogin refuses what ssh would take for an option, or a shell for more than one word.
func aLogin(s string) error {
	if s == "" || strings.HasPrefix(s, "-") || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Errorf("%q is no USER@HOST", s)
	}
	return nil
}

// The exit codes that say why there is no answer.
const (
	exitNotUploaded = 74  // of uploading
	exitNoPermit    = 126 // of every shell: it cannot be run
	exitNoProgram   = 127 // of every shell: it is not there
	exitSSH         = 255 // of ssh
)

// runThere runs the executor's program on the machine, once, and gives how that ended. An
// error is none of the machine's: nothing was begun there, or nobody waits any more.
func (s *session) runThere(ctx context.Context, f *cleanFlags, found server) (outcome, error) {
	tombstone, err := protojson.Marshal(found.GetTombstone())
	if err != nil {
		return nil, err
	}
	command, in, err := f.order(append(tombstone, '\n'), f.timeout*3/4, f.work.dryRun)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	words := strings.Fields(f.ssh)
	cmd := exec.CommandContext(limited, words[0], append(words[1:], "--", f.to, command)...)
	cmd.WaitDelay = time.Second
	stdout, stderr := &bounded{}, &bounded{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, stderr
	failed := cmd.Run()
	for line := range strings.Lines(stderr.String()) {
		s.say("%s: %s", f.to, visible(strings.TrimSpace(line)))
	}
	if ctx.Err() != nil {
		s.say("what was begun at %s may go on there; the same command goes on with it, and says NO_EXECUTOR when nothing is left, or nothing ever was", f.to)
		return nil, context.Cause(ctx)
	}
	o := answerOf(stdout.String(), found.GetId())
	if o == nil {
		o = &reportv1.CleanUpOutcome{Refusal: f.silence(limited, failed, stderr.String()), DryRun: f.work.dryRun}
	}
	if o.ServerId = found.GetId(); o.GetAt() == nil {
		o.At = timestamppb.New(s.now())
	}
	return o, nil
}

// order gives the command line for the machine's shell, and what goes to its standard input.
func (m *machine) order(tombstone []byte, within time.Duration, dryRun bool) (command string, in io.ReadCloser, err error) {
	words := func(program string) string {
		line := program + " uninstall --root " + quote(m.root) + " --tombstone - -o json --within " + max(within, time.Second).Round(time.Second).String()
		if dryRun {
			line += " --dry-run"
		}
		if m.sudo {
			line = "sudo -n " + line
		}
		return line
	}
	if m.upload == "" {
		return words(quote(m.program)), io.NopCloser(bytes.NewReader(tombstone)), nil
	}
	file, err := os.Open(m.upload)
	if err != nil {
		return "", nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New(m.upload + " is not a file")
	}
	if err != nil {
		return "", nil, errors.Join(err, file.Close())
	}
	in = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(tombstone), file), file}
	return "sh -c " + quote(fmt.Sprintf(uploading, info.Size(), words(`"$d/executor"`))), in, nil
}

// uploading keeps the first line of its input, and the rest as a program, which it runs
// with that line as its input. One that did not come whole is not run; the directory goes
// however it ends.
const uploading = `umask 077; IFS= read -r tombstone; d=$(mktemp -d) || exit 74; trap 'rm -rf "$d"' EXIT; trap 'exit 1' HUP INT TERM; ` +
	`cat >"$d/executor"; n=$(wc -c <"$d/executor"); [ "$n" -eq %d ] || exit 74; chmod 700 "$d/executor"; printf '%%s\n' "$tombstone" | %s`

// answerOf gives the last line of what was printed that is an outcome, as a shell's own
// words may come before it; nil when there is none, or it is about another server.
func answerOf(printed, id string) outcome {
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	o, err := parseOutcome([]byte(lines[len(lines)-1]))
	if err != nil || o.GetServerId() != id && o.GetRefusal() == nil {
		return nil
	}
	return o
}

// silence says why there was no answer.
func (m *machine) silence(ctx context.Context, failed error, stderr string) *apiv1.Refusal {
	last := visible(strings.TrimSpace(stderr))
	if i := strings.LastIndex(last, "\n"); i >= 0 {
		last = last[i+1:]
	}
	r := &apiv1.Refusal{Component: "garrison", Try: "the same command again"}
	if ctx.Err() != nil {
		r.Code, r.Message = "TIMED_OUT", "no answer from "+m.to+" in the time that was given; what was begun there may go on"
		return r
	}
	switch code := exitOf(failed); code {
	case exitSSH:
		r.Code, r.Message, r.Try = "SSH_FAILED", fmt.Sprintf("%s cannot be reached by ssh: %v: %s", m.to, failed, last), m.ssh+" "+m.to
	case exitNotUploaded:
		r.Code, r.Message = "NOT_UPLOADED", fmt.Sprintf("%s did not come whole to a temporary place at %s, and was not run: %s", m.upload, m.to, last)
	case exitNoPermit, exitNoProgram, exitUsage:
		r.Code, r.Message = "NO_PROGRAM", fmt.Sprintf("%s has no executor program %q that can do this: exit code %d: %s", m.to, m.program, code, last)
		r.Try = "--executor PROGRAM, or --upload FILE with a current one for that machine"
	default:
		r.Code, r.Message = "NOT_CLEANED", fmt.Sprintf("no receipt came from %s: exit code %d: %s", m.to, code, last)
	}
	return r
}

// exitOf gives the exit code of a command over ssh; one that could not even be started is ssh's.
func exitOf(failed error) int {
	if failed == nil {
		return exitOK
	}
	if exit, ok := errors.AsType[*exec.ExitError](failed); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	return exitSSH
}

// bounded keeps the first part of what is written, and passes over the rest.
type bounded struct{ bytes.Buffer }

// Write implements io.Writer; it always takes everything.
func (b *bounded) Write(p []byte) (int, error) {
	room := max(maxReceipt-b.Len(), 0)
	_, _ = b.Buffer.Write(p[:min(len(p), room)]) // a buffer takes everything
	return len(p), nil
}

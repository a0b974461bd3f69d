package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

// The exit codes that tell why no outcome was printed.
const (
	exitBadUsage    = 2   // of the executor
	exitNotUploaded = 74  // of uploading
	exitNoPermit    = 126 // of every shell: not executable
	exitNoProgram   = 127 // of every shell: not found
	exitSSH         = 255 // of ssh
)

// failure returns a refusal with the reason why no outcome was printed.
func (m *Host) failure(ctx context.Context, failed error, stderr string) *apiv1.Refusal {
	last := visible.Text(strings.TrimSpace(stderr))
	if i := strings.LastIndex(last, "\n"); i >= 0 {
		last = last[i+1:]
	}
	r := &apiv1.Refusal{Component: "garrison", Try: "the same command again"}
	if ctx.Err() != nil {
		r.Code, r.Message = code.TimedOut, "no answer from "+m.To+" within the time limit; the clean-up may "+
			"continue there"
		return r
	}
	switch exit := exitOf(failed); exit {
	case exitSSH:
		r.Code, r.Message, r.Try = code.SshFailed, fmt.Sprintf("cannot reach %s by ssh: %v", m.To, failed),
			m.Command+" "+m.To
		if unstarted(failed) {
			r.Message, r.Try = fmt.Sprintf("cannot start the ssh command: %v", failed), "--ssh-command COMMAND"
		}
	case exitNotUploaded:
		r.Code, r.Message = code.NotUploaded, fmt.Sprintf(
			"%s did not arrive whole in a temporary directory at %s, and was not run", m.Upload, m.To)
	case exitNoPermit, exitNoProgram, exitBadUsage:
		r.Code, r.Message = code.NoProgram, fmt.Sprintf(
			"%s has no executor program %q that can do this: exit code %d", m.To, m.Program, exit)
		r.Try = "--executor PROGRAM, or --upload FILE with a current one for that machine"
	default:
		r.Code, r.Message = code.NotCleaned, fmt.Sprintf("no receipt came from %s: exit code %d", m.To, exit)
	}
	if last != "" {
		r.Message += ": " + last
	}
	return r
}

// unstarted reports whether a command failed because it could not be started.
func unstarted(failed error) bool {
	_, unknown := errors.AsType[*exec.Error](failed)
	_, unusable := errors.AsType[*fs.PathError](failed)
	return unknown || unusable
}

// exitOf returns the exit code of a command over ssh. For a command that could not be started it returns ssh's own
// code.
func exitOf(failed error) int {
	if failed == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](failed); ok && exit.ExitCode() >= 0 {
		return exit.ExitCode()
	}
	return exitSSH
}

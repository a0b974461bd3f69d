package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// inheritedVariable makes a test print what a process that this one starts inherits.
const inheritedVariable = "GARRISON_TEST_INHERITED"

func TestAgentsHaveTheUmaskOfAServiceWhateverTheExecutorIsStartedWith(t *testing.T) {
	if os.Getenv(inheritedVariable) != "" {
		setInherited()
		agent := exec.Command("sh", "-c", "umask")
		agent.Stdout = os.Stdout
		if err := agent.Run(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	for _, umask := range []string{"000", "077"} {
		executor := exec.Command("sh", "-c", "umask "+umask+`; exec "$0" -test.run "$1"`, os.Args[0], "^"+t.Name()+"$")
		executor.Env = append(os.Environ(), inheritedVariable+"=1")
		out, err := executor.Output()
		if first, _, _ := strings.Cut(string(out), "\n"); err != nil || first != "0022" {
			t.Errorf("started with umask %s, an agent has %q, %v; want 0022", umask, first, err)
		}
	}
}

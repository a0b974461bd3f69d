package client_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The Go program in proto/INTENTS.md compiles, because it is part of an example here.
func TestTheGoProgramOfTheContractIsAnExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../proto/INTENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(page)
	if code == nil {
		t.Fatal("proto/INTENTS.md has no Go program")
	}
	have := strings.ReplaceAll(string(examples), "\n\t", "\n")
	if !strings.Contains(have, string(code[1])) {
		t.Errorf("no example holds this program:\n%s", code[1])
	}
}

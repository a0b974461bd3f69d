package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheGeneratedCodesAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../CODES.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(string(page))
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../codes.go")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(have)); d != "" {
		t.Errorf("run go generate ./pkg/code (-want +have):\n%s", d)
	}
}

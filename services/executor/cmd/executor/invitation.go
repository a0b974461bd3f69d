package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/config"
	"github.com/garrison-fleet/garrison/pkg/regular"
	"github.com/garrison-fleet/garrison/pkg/text"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// invitation is the token of a server, which several flags can set. Every user of the machine can read
// a command line while the process runs, so it never holds a token.
type invitation struct {
	given string // by which flag; empty without a token
	open  func() (io.ReadCloser, error)
}

// maxInvitation is how long a token may be.
const maxInvitation = 64 << 10

// tokenOn reports whether a command line holds a token itself, which every user of the machine could read there.
func tokenOn(args []string) bool {
	for n, arg := range args {
		name, value, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != "token" || !strings.HasPrefix(arg, "-") {
			continue
		}
		if !joined && n+1 < len(args) {
			value = args[n+1]
		}
		if value != "-" {
			return true
		}
	}
	return false
}

// invitationFlag is one of the flags.
type invitationFlag struct {
	*invitation
	name string
	open func(value string) (func() (io.ReadCloser, error), error)
}

// Set implements flag.Value.
func (f invitationFlag) Set(value string) error {
	if f.given != "" {
		return fmt.Errorf("more than one token: --%s is set already", f.given)
	}
	open, err := f.open(value)
	if err == nil {
		f.given, f.invitation.open = f.name, open
	}
	return err
}

// String implements flag.Value; a token is never shown.
func (invitationFlag) String() string { return "" }

// Given implements config.Alternative.
func (f invitationFlag) Given() bool { return f.given != "" }

// fromFile opens a file.
func fromFile(path string) (func() (io.ReadCloser, error), error) {
	_, err := config.File(path)
	return func() (io.ReadCloser, error) { return regular.Open(path) }, err
}

// fromWordOrInput takes the token itself, or - for the standard input.
func fromWordOrInput(word string) (func() (io.ReadCloser, error), error) {
	if word == "-" {
		in := os.Stdin
		return func() (io.ReadCloser, error) { return in, nil }, nil
	}
	return fromWord(word)
}

// fromWord takes the token itself. A running executor may start again as another program, and a pipe
// can be read only once.
func fromWord(word string) (func() (io.ReadCloser, error), error) {
	if word == "" || word == "-" {
		return nil, errors.New("want the token itself; --token-file FILE keeps it out of the process list")
	}
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(word)), nil }, nil
}

// token reads the token, one line. It returns at the end of ctx, also while nothing arrives.
func (i *invitation) token(ctx context.Context) (string, error) {
	if i.given == "" {
		return "", nil
	}
	return readWithin(ctx, func() (string, error) {
		in, err := i.open()
		if err != nil {
			return "", err
		}
		line, err := firstLine(io.LimitReader(in, maxInvitation))
		if err = errors.Join(err, in.Close()); err == nil {
			_, err = trust.ParseToken(line)
		}
		return line, err
	})
}

func firstLine(from io.Reader) (string, error) {
	in, err := text.NewReader(from)
	if err != nil {
		return "", err
	}
	line, err := in.ReadString('\n')
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return line, err
}

// Command release makes a release of Garrison, and verifies one. make release calls it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/garrison-fleet/garrison/deploy/release"
)

const usage = `Makes or verifies a release of Garrison, from the top of its source tree.

  release [flags]                  makes a release, in OUT/VERSION
  release verify [--keys FILE] DIR checks every file of a release, and its signature with --keys

Flags:
`

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	cancel()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	verify := len(args) > 0 && args[0] == "verify"
	if verify {
		args = args[1:]
	}
	o := release.Options{Root: ".", Log: stdout}
	var archs, keys, key string
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.Usage = func() { fmt.Fprint(fs.Output(), usage); fs.PrintDefaults() }
	fs.StringVar(&keys, "keys", "", "the `FILE` with the public halves of the two release keys, one on each line")
	if !verify {
		fs.StringVar(&o.Version, "version", "", "the `VERSION`, such as 1.2.3")
		fs.StringVar(&o.Out, "out", "bin/release", "the `DIRECTORY` below which the release appears")
		fs.StringVar(&key, "key", "", "sign with the secret half of a release key in this `FILE`")
		fs.StringVar(&archs, "arch", "amd64,arm64", "the `ARCHITECTURES`")
		fs.BoolVar(&o.Local, "local", false, "a build to try, also of what is not committed; its version says so")
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	if want := map[bool]int{true: 1}[verify]; fs.NArg() != want {
		return fmt.Errorf("%d arguments, want %d; see release --help", fs.NArg(), want)
	}
	if err := readKeys(&o, keys, key); err != nil {
		return err
	}
	if verify {
		return verified(fs.Arg(0), o.Keys, stdout)
	}
	o.Archs = strings.Split(archs, ",")
	dir, err := release.Make(ctx, o)
	if err != nil {
		return err
	}
	state := "signed"
	if o.Seed == nil {
		state = "NOT SIGNED: sign it with --key (make release KEY=FILE KEYS=FILE)"
	}
	fmt.Fprintf(stdout, "%s\n%s\n", dir, state)
	return nil
}

// readKeys reads the files of keys.
func readKeys(o *release.Options, public, secret string) (err error) {
	if public != "" {
		text, err := os.ReadFile(public)
		if err != nil {
			return fmt.Errorf("--keys: %w", err)
		}
		o.Keys = strings.Fields(string(text))
	}
	if secret != "" {
		if o.Seed, err = os.ReadFile(secret); err != nil {
			return fmt.Errorf("--key: %w", err)
		}
	}
	return nil
}

func verified(dir string, keys []string, stdout io.Writer) error {
	if err := release.Verify(dir, keys); err != nil {
		return err
	}
	if len(keys) == 0 {
		fmt.Fprintln(stdout, "every file is as SHA256SUMS lists it; the signature was not checked: pass --keys")
		return nil
	}
	fmt.Fprintln(stdout, "every file is as SHA256SUMS lists it, and one of the keys signed it")
	return nil
}

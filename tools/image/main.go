// Command image packs static Linux binaries of a Go program into one OCI image for several platforms, without a container
// engine and without a base image, and writes a software bill of materials of each platform.
//
// The same binaries and flags give the same bytes: it reads neither the clock nor the environment, but for the credentials
// to push with.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "image:", err)
		stop()
		os.Exit(1)
	}
}

// run builds what the arguments say. It prints the digest of the image, and where it went, to out.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: image [flags] BINARY...\n\nEach binary is one platform of the image: the one that it was compiled for.\n\nFlags:")
		flags.PrintDefaults()
	}
	var o options
	flags.StringVar(&o.repository, "repository", "", "`name` of the image without its tag, such as registry.example.com/team/image")
	flags.StringVar(&o.version, "version", "", "`version` of the program, and the tag of the image")
	flags.StringVar(&o.revision, "revision", "", "`commit` that the binaries were compiled from")
	created := flags.Int64("created", 0, "`seconds` since 1970, as SOURCE_DATE_EPOCH: the time of everything in the image")
	licence := flags.String("licence", "", "`file` with the licence to put into the image")
	output := flags.String("output", "", "`folder` to write the archive and the bills of materials to")
	pushTo := flags.String("push", "", "`name:tag` to push the image to, with the credentials of `docker login`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.created = time.Unix(*created, 0).UTC()

	var target name.Tag
	var err error
	if *pushTo != "" {
		if target, err = name.NewTag(*pushTo, name.StrictValidation); err != nil {
			return fmt.Errorf("--push: %w", err)
		}
	}
	if o.tag, err = name.NewTag(o.repository+":"+o.version, name.StrictValidation); err != nil {
		return fmt.Errorf("--repository and --version: %w", err)
	}
	if o.licence, err = os.ReadFile(*licence); err != nil {
		return fmt.Errorf("--licence: %w", err)
	}
	if err := os.MkdirAll(*output, 0o755); err != nil { //nolint:gosec // What is published may be read by everybody.
		return fmt.Errorf("--output: %w", err)
	}

	built, err := build(o, flags.Args())
	if err != nil {
		return err
	}
	for _, p := range built.platforms {
		file := filepath.Join(*output, fmt.Sprintf("%s-%s-%s.cdx.json", program, p.platform.OS, p.platform.Architecture))
		if err := os.WriteFile(file, p.materials, 0o644); err != nil { //nolint:gosec // What is published may be read by everybody.
			return err
		}
	}
	archive := filepath.Join(*output, program+".tar")
	if err := writeArchive(archive, o, built.index); err != nil {
		return fmt.Errorf("writing %s: %w", archive, err)
	}
	digest, err := built.index.Digest()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s %s@%s\n", archive, o.tag, digest)

	if *pushTo == "" {
		return nil
	}
	if err := push(target, built, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return fmt.Errorf("pushing to %s: %w", target, err)
	}
	fmt.Fprintf(out, "pushed %s@%s\n", target, digest)
	return nil
}

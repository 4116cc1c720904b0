//go:build race

package rsgtest

// raceDetector builds the manager as the tests are built.
const raceDetector = true

//go:build race

package estest

// raceDetector builds the manager as the tests are built.
const raceDetector = true

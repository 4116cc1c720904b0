#!/usr/bin/env python3
"""Writes firings.txt.gz: every firing of some cron expressions in 30 time zones over ten years.

The reference for the tests of package tides. It shares nothing with them: Python's zoneinfo reads the system's zone
database, and each firing is found by matching the fields against every minute of every day.

    python3 firings.py > firings.txt.gz

Lines are: the version of the zone database and of Python; then for each zone and expression "zone<TAB>cron<TAB>from<TAB>to",
and in the next line the first firing and the distances from one to the next in seconds, repeated ones as distance*times.
Moments are Unix times, from inclusive and to exclusive. Years that are over are used, since later versions of the database
may change what lies ahead.
"""

import calendar
import datetime as dt
import gzip
import io
import platform
import re
import sys
import zoneinfo

UTC = dt.timezone.utc

ZONES = """
UTC Africa/Cairo Africa/Casablanca Africa/El_Aaiun America/Asuncion America/Caracas America/Havana America/Los_Angeles
America/Mexico_City America/New_York America/Sao_Paulo America/Scoresbysund America/St_Johns Antarctica/Troll Asia/Amman
Asia/Gaza Asia/Kathmandu Asia/Kolkata Asia/Pyongyang Asia/Shanghai Asia/Tehran Australia/Adelaide Australia/Lord_Howe
Europe/Dublin Europe/Istanbul Europe/London Europe/Volgograd Pacific/Chatham Pacific/Kiritimati
""".split()

CRONS = [
    "0 0 * * *",  # midnight, which some zones skip
    "30 1 * * *",
    "30 2 * * *",
    "15 2,3 * * *",
    "*/20 0-4 * * *",
    "0 */2 * * *",
    "5,35 * * * *",
    "10 30 23 * * 0,6",
    "0 9 * * 1-5",
    "0 0 31 * *",
    "0 12 29 2 *",
    "45 23 13 * 5",  # either day field is enough
    "*/25 59 23 31 12 *",
    "0 0 1,15 3,4,10,11 *",
]

LIMITS = [(0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]


def members(text, low, high):
    """The values that one field lists."""
    out = set()
    for part in text.split(","):
        match = re.fullmatch(r"(?:(\*)|(\d+)(?:-(\d+))?)(?:/(\d+))?", part)
        star, first, last, step = match.groups()
        if star:
            first, last = low, high
        else:
            first = int(first)
            last = int(last) if last else (high if step else first)
        out.update(range(first, last + 1, int(step or 1)))
    return out


def moment_of(reading, zone):
    """The first moment at which the clock of the zone has reached a reading."""
    there = reading.replace(tzinfo=zone, fold=0)
    moment = there.astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == reading:
        return int(moment.timestamp())
    # The clock skips the reading. It jumps somewhere within the two days around it: find the second by halving.
    before, after = int(moment.timestamp()) - 86400, int(moment.timestamp()) + 86400
    while after - before > 1:
        middle = (before + after) // 2
        if dt.datetime.fromtimestamp(middle, zone).replace(tzinfo=None) < reading:
            before = middle
        else:
            after = middle
    return after


def firings(cron, zone, begin, end):
    parts = cron.split()
    if len(parts) == 5:
        parts = ["0"] + parts
    second, minute, hour, dom, month, dow = (members(p, *limit) for p, limit in zip(parts, LIMITS))
    either = parts[3] != "*" and parts[5] != "*"
    clock = sorted((h, m, s) for h in hour for m in minute for s in second)
    out = set()
    day = dt.datetime.fromtimestamp(begin, UTC).date() - dt.timedelta(days=3)
    last = dt.datetime.fromtimestamp(end, UTC).date() + dt.timedelta(days=3)
    while day <= last:
        in_dom, in_dow = day.day in dom, (day.weekday() + 1) % 7 in dow
        if day.month in month and (in_dom or in_dow if either else in_dom and in_dow):
            for h, m, s in clock:
                moment = moment_of(dt.datetime(day.year, day.month, day.day, h, m, s), zone)
                if begin <= moment < end:
                    out.add(moment)
        day += dt.timedelta(days=1)
    return sorted(out)


def runs(moments):
    if not moments:
        return ""
    out, times = [], 0
    distances = [b - a for a, b in zip(moments, moments[1:])]
    for i, distance in enumerate(distances):
        times += 1
        if i + 1 == len(distances) or distances[i + 1] != distance:
            out.append(f"{distance}*{times}" if times > 1 else str(distance))
            times = 0
    return " ".join([str(moments[0])] + out)


def database_version():
    for folder in zoneinfo.TZPATH:
        try:
            with open(folder + "/tzdata.zi") as text:
                return text.readline().split()[-1]
        except OSError:
            continue
    return "unknown"


def main():
    text = io.StringIO()
    text.write(f"tz {database_version()}, Python {platform.python_version()}\n")
    for name, first_year in [(z, 2016) for z in ZONES] + [("Pacific/Apia", 2005)]:
        begin, end = (calendar.timegm((y, 1, 1, 0, 0, 0)) for y in (first_year, first_year + 10))
        # zoneinfo.ZoneInfo shares zones; a cold start for each keeps them independent of each other.
        zone = zoneinfo.ZoneInfo.no_cache(name)
        for cron in CRONS:
            text.write(f"{name}\t{cron}\t{begin}\t{end}\n{runs(firings(cron, zone, begin, end))}\n")
        print(name, file=sys.stderr)
    # Without a name and a time the same text gives the same file.
    with gzip.GzipFile(fileobj=sys.stdout.buffer, mode="wb", compresslevel=9, filename="", mtime=0) as out:
        out.write(text.getvalue().encode())


main()

#include "dates.h"

#include "protocol.h"

#define DAY_SECONDS 86400

/* Days since 1970-01-01 in the Gregorian calendar. The year starts in March here, so that a leap day is its last day
 * and 400 years always have 146097 days. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t since_march = (month + 9) % 12;
    int64_t march_year = month <= 2 ? year - 1 : year;
    int64_t days = 365 * march_year + march_year / 4 - march_year / 100 + march_year / 400;
    return days + (153 * since_march + 2) / 5 + day - 1 - 719468;
}

dsmDate date_of(uint64_t instant_ms, int32_t offset_seconds)
{
    static const dsmDate NEVER = {DATE_PLUS_INFINITE, 12, 31, 23, 59, 59};
    if (instant_ms == DATE_NONE) {
        return (dsmDate){0};
    }
    if (instant_ms / 1000 >= (uint64_t)days_of(DATE_PLUS_INFINITE - 1, 1, 1) * DAY_SECONDS) {
        return NEVER;
    }
    int64_t seconds = (int64_t)(instant_ms / 1000) + offset_seconds;
    if (seconds < 0) {
        seconds = 0;
    }
    int64_t days = seconds / DAY_SECONDS + 719468;
    int64_t era = days / 146097;
    int64_t day_of_era = days % 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t since_march = (5 * day_of_year + 2) / 153;
    int64_t month = since_march < 10 ? since_march + 3 : since_march - 9;
    int64_t in_day = seconds % DAY_SECONDS;
    return (dsmDate){
        .year = (dsUint16_t)(era * 400 + year_of_era + (month <= 2)),
        .month = (dsUint8_t)month,
        .day = (dsUint8_t)(day_of_year - (153 * since_march + 2) / 5 + 1),
        .hour = (dsUint8_t)(in_day / 3600),
        .minute = (dsUint8_t)(in_day / 60 % 60),
        .second = (dsUint8_t)(in_day % 60),
    };
}

bool instant_of(const dsmDate *date, int32_t offset_seconds, uint64_t *instant_ms)
{
    if (date->year == DATE_MINUS_INFINITE || date->year == DATE_PLUS_INFINITE) {
        *instant_ms = date->year == DATE_MINUS_INFINITE ? DATE_NONE : DATE_NEVER;
        return true;
    }
    if (date->month < 1 || date->month > 12 || date->day < 1 || date->day > 31 || date->hour > 23 ||
        date->minute > 59 || date->second > 59) {
        return false;
    }
    int64_t seconds = days_of(date->year, date->month, date->day) * DAY_SECONDS;
    seconds += date->hour * 3600 + date->minute * 60 + date->second - offset_seconds;
    *instant_ms = seconds > 0 ? (uint64_t)seconds * 1000 : DATE_NONE;
    return true;
}
